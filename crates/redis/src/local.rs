//! A connection to the server on the caller's own runtime, so that a request wakes no other thread.
//!
//! The keeper's thread is always there, but a request through it costs two thread wake-ups, which take longer than the
//! server's reply. So a runtime that sends many requests gets its own connection, made in the background. The keeper's
//! connection is used until that one stands, whenever it is broken, and where there is no runtime.
//!
//! A program may block its runtime. Then requests there are not sent, and replies are not read. So when the keeper
//! waits for a request that has to arrive, and the runtime does not poll its tasks, the keeper gets the error that the
//! outcome is unknown, and repeats the request on its own connection. Nothing is repeated here: the second reply to a
//! leave could hide the first.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{Cmd, PushKind, RedisResult, Value};
use tidelock_core::backend::{Distrust, Driven, Local, Locals, Reply, Witness};
use tidelock_core::{Name, Result};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::dial::{Dial, Dialed};
use crate::link::{Settings, WhenDropped, silent};
use crate::outbox::{Outbox, Queue};
use crate::{dial, pulse, script, trouble};

/// The connections to one server that are on callers' runtimes.
#[derive(Debug)]
pub(crate) struct LocalConnections {
    dial: Arc<dyn Dial>,
    settings: Settings,
    all: Locals<LocalConnection>,
}

/// A connection on one runtime; it ends with that runtime.
#[derive(Debug)]
pub(crate) struct LocalConnection {
    outbox: Arc<Outbox>,
    driven: Arc<Driven>,
    is_given_up: AtomicBool,
    witness: Witness,
    /// Runs for as long as the connection may be useful.
    task: AbortHandle,
    settings: Settings,
    place: String,
}

impl LocalConnections {
    pub(crate) fn new(dial: Arc<dyn Dial>, settings: Settings) -> Self {
        let all = Locals::new(&settings.runtime);
        Self { dial, settings, all }
    }

    /// The connection on the calling runtime, if there is one and it stands.
    pub(crate) fn mine(&self) -> Option<Arc<LocalConnection>> {
        let open = |here: &Handle| LocalConnection::open(self.dial.clone(), self.settings.clone(), here);
        if self.settings.has_locals { self.all.mine(open) } else { None }
    }
}

impl Local for LocalConnection {
    fn stands(&self) -> bool {
        self.outbox.stands()
    }

    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }

    fn witness(&self) -> &Witness {
        &self.witness
    }
}

impl LocalConnection {
    /// Connects in the background.
    fn open(dial: Arc<dyn Dial>, settings: Settings, here: &Handle) -> Arc<Self> {
        let place = dial.place();
        let ((outbox, queue), driven) = (Outbox::new(!settings.has_slots), Arc::<Driven>::default());
        let witness = Witness::default();
        let (watched, served, timeouts) = (witness.watch(), outbox.clone(), settings.timeouts);
        let answering = driven.clone();
        let serving = async move {
            let _watched = watched;
            tokio::select! {
                biased;
                () = serve(dial, served, queue, timeouts.connect, timeouts.doubt) => {}
                () = answering.answer() => {}
            }
        };
        let (is_given_up, task) = (AtomicBool::new(false), here.spawn(serving).abort_handle());
        Arc::new(Self { outbox, driven, is_given_up, witness, task, settings, place })
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Sends a command about a name. One that must be sent in any case is under way when this returns.
    pub(crate) fn ask(self: Arc<Self>, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let sending = Box::pin(send(self.outbox.clone(), command, when_dropped));
        let distrust = Distrust::new(self.driven.clone(), &self.settings.runtime);
        let mut asking = Asking { connection: self, sending, has_to_arrive: None };
        if when_dropped == WhenDropped::Send {
            asking.has_to_arrive = Some((name.clone(), distrust));
            // The first poll hands it to the connection; the caller polls it again.
            if let Poll::Ready(reply) = asking.sending.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                let reply = asking.finish(reply);
                return Box::pin(std::future::ready(reply));
            }
        }
        Box::pin(asking)
    }
}

/// Connects, and sends requests for as long as the connection may be useful.
async fn serve(dial: Arc<dyn Dial>, outbox: Arc<Outbox>, queue: Queue, within: Duration, doubt: Duration) {
    let connected = dial::within(within, dial.dial(within)).await;
    let Ok(Dialed { connection, mut pushes, mut tenure }) = connected else { return };
    // Nothing is subscribed, so the only push is the disconnection.
    let end = async { while pushes.recv().await.is_some_and(|push| push.kind != PushKind::Disconnection) {} };
    let here = || script::is_answered(connection.clone());
    let elsewhere = || {
        let dial = dial.clone();
        async move {
            let dialing = async { script::is_served(dial.dial(within).await?.connection).await };
            dial::elsewhere(within, dialing).await
        }
    };
    tokio::select! {
        biased;
        () = end => {}
        () = tenure.ends() => {}
        _ = pulse::outlived(outbox.pulse(), doubt, here, elsewhere) => {}
        () = outbox.serve(connection.clone(), queue) => {}
    }
}

async fn send(outbox: Arc<Outbox>, command: Cmd, when_dropped: WhenDropped) -> RedisResult<Value> {
    let reply = outbox.ask(&command, when_dropped).await?;
    match script::is_unknown(&reply).then(|| script::by_text(&command)).flatten() {
        Some(by_text) => outbox.ask(&by_text, when_dropped).await,
        None => Ok(reply),
    }
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request under way.
struct Asking<F> {
    connection: Arc<LocalConnection>,
    sending: Pin<Box<F>>,
    /// The name, if the request has to arrive, and when the keeper no longer trusts the runtime with it.
    has_to_arrive: Option<(Name, Distrust)>,
}

impl<F: Future<Output = RedisResult<Value>>> Asking<F> {
    fn finish(&mut self, reply: RedisResult<Value>) -> Result<Value> {
        if reply.as_ref().map_or(true, trouble::is_read_only) {
            self.connection.give_up();
        }
        if reply.is_err() {
            self.miss();
        }
        let reply = reply.map_err(|error| trouble::from(error, &self.connection.place))?;
        self.connection.settings.news.replied(&reply);
        Ok(reply)
    }

    /// The reply will not be heard. It may have told of grants to other claims on this name, so core has to look there.
    fn miss(&self) {
        if let Some((name, _)) = &self.has_to_arrive {
            self.connection.settings.news.missed_on(name);
        }
    }
}

impl<F: Future<Output = RedisResult<Value>>> Future for Asking<F> {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(reply) = self.sending.as_mut().poll(cx) {
            return Poll::Ready(self.finish(reply));
        }
        let Some((_, distrust)) = &mut self.has_to_arrive else { return Poll::Pending };
        std::task::ready!(Pin::new(distrust).poll(cx));
        // The connection stays: others wait for replies there, and the network may only be slow. Its pulse tells
        // whether it has fallen silent.
        self.miss();
        Poll::Ready(Err(silent(&self.connection.place)))
    }
}
