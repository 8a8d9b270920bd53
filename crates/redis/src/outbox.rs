//! Sends the requests of a crowd on one runtime as one write.
//!
//! A task that a request wakes runs before other tasks that could also send a request, so it would write each request
//! alone. The outbox's task therefore lets the others run first, and then takes all requests that have come. It does
//! not wait for replies before it sends the next batch. A few concurrent requests gain nothing from that, so they go to
//! the connection directly, unless something is still in the outbox: requests are sent in their order. Several requests
//! about different names go as one script (`together.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::link::{self, WhenDropped};
use crate::pulse::Pulse;
use crate::together::{self, Call, Request};

/// From how many requests under way on there is a crowd.
const CROWD: usize = 8;
/// The most requests in one write.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) struct Outbox {
    connection: OnceLock<MultiplexedConnection>,
    queue: UnboundedSender<Request>,
    pulse: Arc<Pulse>,
    unsent: AtomicUsize,
    /// Whether one script may have several names.
    goes_together: bool,
    /// Tells callers that wait for a reply that the connection is given up.
    end: watch::Receiver<()>,
}

/// The requests that wait to be sent. Dropping the queue gives the connection up.
#[derive(Debug)]
pub(crate) struct Queue {
    requests: UnboundedReceiver<Request>,
    _end: watch::Sender<()>,
}

impl Outbox {
    pub(crate) fn new(goes_together: bool) -> (Arc<Self>, Queue) {
        let ((queue, requests), (end, ended)) = (unbounded_channel(), watch::channel(()));
        let (connection, pulse, unsent) = (OnceLock::new(), Arc::default(), AtomicUsize::new(0));
        let outbox = Self { connection, queue, pulse, unsent, goes_together, end: ended };
        (Arc::new(outbox), Queue { requests, _end: end })
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    pub(crate) fn stands(&self) -> bool {
        self.connection.get().is_some()
    }

    /// Sends one command. The first poll gives it its place in the order.
    pub(crate) async fn ask(&self, command: &Cmd, when_dropped: WhenDropped) -> RedisResult<Value> {
        let Some(connection) = self.connection.get() else {
            return Err(RedisError::from((ErrorKind::Io, "not connected yet")));
        };
        let (is_crowd, _asked) = (self.pulse.under_way() >= CROWD, self.pulse.ask());
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            answer = self.answer(connection, command, when_dropped, is_crowd) => {
                if answer.is_ok() {
                    self.pulse.hear();
                }
                answer
            }
            _ = end.changed() => Err(RedisError::from((ErrorKind::Io, "the connection was given up"))),
        }
    }

    async fn answer(
        &self,
        connection: &MultiplexedConnection,
        command: &Cmd,
        when_dropped: WhenDropped,
        is_crowd: bool,
    ) -> RedisResult<Value> {
        if !is_crowd && self.unsent.load(Ordering::Acquire) == 0 {
            return connection.clone().send_packed_command(command).await;
        }
        let (sender, reply) = oneshot::channel();
        self.unsent.fetch_add(1, Ordering::Relaxed);
        // If the task has ended, the sender is dropped here, and the caller gets an error.
        let _ = self.queue.send(Request { command: command.clone(), when_dropped, reply: sender });
        reply.await.unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "the connection has ended"))))
    }

    /// Sends queued commands until dropped.
    pub(crate) async fn serve(&self, connection: MultiplexedConnection, mut queue: Queue) {
        let _ = self.connection.set(connection.clone()); // it is set only here
        let mut batch = Vec::with_capacity(BATCH);
        while queue.requests.recv_many(&mut batch, BATCH).await > 0 {
            tokio::task::yield_now().await;
            while batch.len() < BATCH
                && let Ok(request) = queue.requests.try_recv()
            {
                batch.push(request);
            }
            let count = batch.len();
            let asked = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            for some in link::in_batches(asked, |request| link::bytes_of(&request.command)) {
                let calls = if self.goes_together { together::calls(some) } else { together::alone(some) };
                send(connection.clone(), calls, self.end.clone()).await;
            }
            self.unsent.fetch_sub(count, Ordering::Release);
        }
    }
}

/// Sends a batch. A task of its own waits for the replies.
async fn send(mut connection: MultiplexedConnection, mut calls: Vec<Call>, mut end: watch::Receiver<()>) {
    let sending = async move {
        while !calls.is_empty() && !end.has_changed().unwrap_or(true) {
            let mut pipeline = redis::pipe();
            for call in &mut calls {
                pipeline.add_command(call.command());
            }
            let answers = tokio::select! {
                biased;
                answers = connection.send_packed_commands(&pipeline, 0, calls.len()) => answers,
                _ = end.changed() => return,
            };
            calls = match answers {
                Ok(values) => {
                    calls.into_iter().zip(values).flat_map(|(call, value)| call.answer(value)).collect()
                }
                Err(error) => return calls.into_iter().for_each(|call| call.fail(&error)),
            };
        }
    };
    link::begin(sending).await;
}
