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

mod driven;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{Cmd, PushKind, RedisResult, Value};
use tidelock_core::backend::{Reply, unharmed};
use tidelock_core::{Name, Result};
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use self::driven::Driven;
use crate::dial::{Dial, Dialed};
use crate::link::{Settings, WhenDropped, silent};
use crate::outbox::{Outbox, Queue};
use crate::{dial, pulse, script, trouble};

/// Whether runtimes get their own connections by default. Tokio cannot say whether a runtime can do I/O, and panics
/// where it cannot. That panic ends the task that tries it, and the whole program if panics abort.
pub(crate) const BY_DEFAULT: bool = cfg!(panic = "unwind");
/// After how many requests a runtime gets its own connection: short programs do without one.
const OFTEN: u32 = 32;
/// The most runtimes that have their own connection.
const MOST: usize = 8;
/// How long the keeper trusts a runtime that has a request and does not poll its tasks.
const TRUST: Duration = Duration::from_millis(100);

/// The connections to one server that are on callers' runtimes.
#[derive(Debug)]
pub(crate) struct Locals {
    dial: Arc<dyn Dial>,
    settings: Settings,
    callers: Mutex<Vec<Caller>>,
}

#[derive(Debug)]
struct Caller {
    runtime: Id,
    asked: u32,
    connection: Option<Arc<LocalConnection>>,
    /// Whether the runtime cannot do I/O.
    is_unfit: bool,
}

/// A connection on one runtime; it ends with that runtime.
#[derive(Debug)]
pub(crate) struct LocalConnection {
    outbox: Arc<Outbox>,
    driven: Arc<Driven>,
    is_given_up: AtomicBool,
    has_panicked: Arc<AtomicBool>,
    /// Runs for as long as the connection may be useful.
    task: AbortHandle,
    settings: Settings,
    place: String,
}

impl Locals {
    pub(crate) fn new(dial: Arc<dyn Dial>, settings: Settings) -> Self {
        Self { dial, settings, callers: Mutex::default() }
    }

    /// The connection on the calling runtime, if there is one and it stands.
    pub(crate) fn mine(&self) -> Option<Arc<LocalConnection>> {
        let here = Handle::try_current().ok().filter(|_| self.settings.has_locals)?;
        let id = here.id();
        if id == self.settings.runtime.id() {
            return None;
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(caller) = callers.iter_mut().find(|caller| caller.runtime == id) else {
            make_room(&mut callers);
            if callers.len() < MOST {
                callers.push(Caller { runtime: id, asked: 1, connection: None, is_unfit: false });
            }
            return None;
        };
        match &caller.connection {
            _ if caller.is_unfit => return None,
            Some(connection) if connection.has_panicked() => {
                (caller.connection, caller.is_unfit) = (None, true);
                drop(callers); // a tracing subscriber may use locks itself
                unharmed(|| {
                    tracing::warn!(
                        "a tokio runtime does no I/O, so its locks use Tidelock's own connection; Store::connection_for_each_runtime(false) avoids the attempt"
                    );
                });
                return None;
            }
            Some(connection) if connection.is_broken() => (caller.connection, caller.asked) = (None, 0),
            Some(connection) => return connection.outbox.stands().then(|| connection.clone()),
            None => caller.asked += 1,
        }
        if caller.asked >= OFTEN {
            caller.connection = Some(LocalConnection::open(self.dial.clone(), self.settings.clone(), &here));
        }
        None
    }
}

/// Records whether it was dropped by a panic.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(std::thread::panicking(), Ordering::Release);
    }
}

/// Forgets the runtimes that have ended. If there are still too many, also forgets one that has sent few requests so
/// far.
fn make_room(callers: &mut Vec<Caller>) {
    callers.retain(|caller| {
        caller
            .connection
            .as_ref()
            .is_none_or(|connection| !connection.is_broken() || connection.has_panicked())
    });
    if callers.len() >= MOST
        && let Some(first) = callers.iter().position(|caller| caller.connection.is_none() && !caller.is_unfit)
    {
        callers.remove(first);
    }
}

impl LocalConnection {
    /// Connects in the background.
    fn open(dial: Arc<dyn Dial>, settings: Settings, here: &Handle) -> Arc<Self> {
        let place = dial.place();
        let ((outbox, queue), driven) = (Outbox::new(), Arc::<Driven>::default());
        let has_panicked = Arc::new(AtomicBool::new(false));
        let (witness, served, timeouts) = (Witness(has_panicked.clone()), outbox.clone(), settings.timeouts);
        let answering = driven.clone();
        let serving = async move {
            let _witness = witness;
            tokio::select! {
                biased;
                () = serve(dial, served, queue, timeouts.connect, timeouts.doubt) => {}
                () = answering.answer() => {}
            }
        };
        let (is_given_up, task) = (AtomicBool::new(false), here.spawn(serving).abort_handle());
        Arc::new(Self { outbox, driven, is_given_up, has_panicked, task, settings, place })
    }

    /// Whether the connection is of no more use; for example because its runtime has ended.
    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }

    fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Sends a command about a name. One that must be sent in any case is under way when this returns.
    pub(crate) fn ask(self: Arc<Self>, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let sending = Box::pin(send(self.outbox.clone(), command, when_dropped));
        let mut asking = Asking { connection: self, sending, has_to_arrive: None, distrust: None };
        if when_dropped == WhenDropped::Send {
            asking.has_to_arrive = Some(name.clone());
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
    /// The name, if the request has to arrive.
    has_to_arrive: Option<Name>,
    /// If the keeper polls this: ready when the keeper no longer trusts the runtime.
    distrust: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
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
        if let Some(name) = &self.has_to_arrive {
            self.connection.settings.news.missed_on(name);
        }
    }

    /// If the keeper polls this: waits until the keeper no longer trusts the runtime.
    fn poll_distrust(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_keeper =
            || Handle::try_current().is_ok_and(|here| here.id() == self.connection.settings.runtime.id());
        if self.has_to_arrive.is_none() || (self.distrust.is_none() && !is_keeper()) {
            return Poll::Pending;
        }
        let driven = &self.connection.driven;
        let distrust = self.distrust.get_or_insert_with(|| Box::pin(driven.clone().is_no_more(TRUST)));
        distrust.as_mut().poll(cx)
    }
}

impl<F: Future<Output = RedisResult<Value>>> Future for Asking<F> {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(reply) = self.sending.as_mut().poll(cx) {
            return Poll::Ready(self.finish(reply));
        }
        std::task::ready!(self.poll_distrust(cx));
        // The connection stays: others wait for replies there, and the network may only be slow. Its pulse tells
        // whether it has fallen silent.
        self.miss();
        Poll::Ready(Err(silent(&self.connection.place)))
    }
}
