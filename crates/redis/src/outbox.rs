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
use tokio::sync::oneshot;

use crate::link::{self, WhenDropped};

/// How many questions under way are a crowd.
const CROWD: usize = 8;
/// How many go out together at most.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) struct Outbox {
    connection: OnceLock<MultiplexedConnection>,
    queue: UnboundedSender<Request>,
    under_way: AtomicUsize,
    unsent: AtomicUsize,
}

/// What waits to be sent.
#[derive(Debug)]
pub(crate) struct Queue(UnboundedReceiver<Request>);

#[derive(Debug)]
struct Request {
    command: Cmd,
    when_dropped: WhenDropped,
    reply: oneshot::Sender<RedisResult<Value>>,
}

/// Counts a question for as long as somebody waits for its answer.
struct UnderWay<'a>(&'a AtomicUsize);

impl Outbox {
    pub(crate) fn new() -> (Arc<Self>, Queue) {
        let (queue, requests) = unbounded_channel();
        let outbox = Self {
            connection: OnceLock::new(),
            queue,
            under_way: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
        };
        (Arc::new(outbox), Queue(requests))
    }

    pub(crate) fn stands(&self) -> bool {
        self.connection.get().is_some()
    }

    /// Asks one thing. Its first poll gives it its place in the order.
    pub(crate) async fn ask(&self, command: &Cmd, when_dropped: WhenDropped) -> RedisResult<Value> {
        let Some(connection) = self.connection.get() else {
            return Err(RedisError::from((ErrorKind::Io, "not connected yet")));
        };
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _counted = UnderWay(&self.under_way);
        if under_way < CROWD && self.unsent.load(Ordering::Acquire) == 0 {
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
        while queue.0.recv_many(&mut batch, BATCH).await > 0 {
            tokio::task::yield_now().await;
            while batch.len() < BATCH
                && let Ok(request) = queue.0.try_recv()
            {
                batch.push(request);
            }
            let count = batch.len();
            send(connection.clone(), &mut batch).await;
            self.unsent.fetch_sub(count, Ordering::Release);
        }
    }
}

/// Sends a batch, and leaves the wait for its answers to a task of its own.
async fn send(mut connection: MultiplexedConnection, batch: &mut Vec<Request>) {
    let mut pipeline = redis::pipe();
    let mut askers = Vec::with_capacity(batch.len());
    for request in batch.drain(..) {
        if request.when_dropped == WhenDropped::Send || !request.reply.is_closed() {
            pipeline.add_command(request.command);
            askers.push(request.reply);
        }
    }
    if askers.is_empty() {
        return;
    }
    link::begin(async move {
        let answers = match connection.send_packed_commands(&pipeline, 0, askers.len()).await {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); askers.len()],
        };
        for (asker, answer) in askers.into_iter().zip(answers) {
            let _ = asker.send(answer); // unless nobody waits any more
        }
    })
    .await;
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
