//! What a crowd asks on one runtime goes out as one write.
//!
//! A task that is woken by a request runs before everyone else who could ask as well, and would write each request by
//! itself. So the outbox's task lets the others run first, and then takes whatever has come; it waits for no answer
//! before it sends the next. The few who gain nothing by that ask the connection themselves, unless something lies in
//! the outbox: what was asked first is sent first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::link::{self, WhenDropped};
use crate::pulse::Pulse;

/// How many questions under way are a crowd.
const CROWD: usize = 8;
/// How many go out together at most.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) struct Outbox {
    connection: OnceLock<MultiplexedConnection>,
    queue: UnboundedSender<Request>,
    pulse: Arc<Pulse>,
    unsent: AtomicUsize,
    /// Whoever waits for an answer hears by this that the connection is given up.
    end: watch::Receiver<()>,
}

/// What waits to be sent. When it is dropped the connection is given up.
#[derive(Debug)]
pub(crate) struct Queue {
    requests: UnboundedReceiver<Request>,
    _end: watch::Sender<()>,
}

#[derive(Debug)]
struct Request {
    command: Cmd,
    when_dropped: WhenDropped,
    reply: oneshot::Sender<RedisResult<Value>>,
}

impl Outbox {
    pub(crate) fn new() -> (Arc<Self>, Queue) {
        let ((queue, requests), (end, ended)) = (unbounded_channel(), watch::channel(()));
        let (connection, pulse, unsent) = (OnceLock::new(), Arc::default(), AtomicUsize::new(0));
        let outbox = Self { connection, queue, pulse, unsent, end: ended };
        (Arc::new(outbox), Queue { requests, _end: end })
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    pub(crate) fn stands(&self) -> bool {
        self.connection.get().is_some()
    }

    /// Asks one thing. Its first poll gives it its place in the order.
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
        // Without a task the sender is dropped here, and whoever waits hears that.
        let _ = self.queue.send(Request { command: command.clone(), when_dropped, reply: sender });
        reply.await.unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "the connection has ended"))))
    }

    /// Sends what is asked from now on. Runs until it is dropped.
    pub(crate) async fn serve(&self, connection: MultiplexedConnection, mut queue: Queue) {
        let _ = self.connection.set(connection.clone()); // nobody else does
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
                send(connection.clone(), some, self.end.clone()).await;
            }
            self.unsent.fetch_sub(count, Ordering::Release);
        }
    }
}

/// Sends a batch, and leaves the wait for its answers to a task of its own.
async fn send(mut connection: MultiplexedConnection, batch: Vec<Request>, mut end: watch::Receiver<()>) {
    let mut pipeline = redis::pipe();
    let mut askers = Vec::with_capacity(batch.len());
    for request in batch {
        if request.when_dropped == WhenDropped::Send || !request.reply.is_closed() {
            pipeline.add_command(request.command);
            askers.push(request.reply);
        }
    }
    if askers.is_empty() {
        return;
    }
    link::begin(async move {
        let answers = tokio::select! {
            biased;
            answers = connection.send_packed_commands(&pipeline, 0, askers.len()) => answers,
            _ = end.changed() => return,
        };
        let answers = match answers {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); askers.len()],
        };
        for (asker, answer) in askers.into_iter().zip(answers) {
            let _ = asker.send(answer); // unless nobody waits any more
        }
    })
    .await;
}
