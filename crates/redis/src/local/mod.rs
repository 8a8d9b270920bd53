//! A way to the server on the caller's own runtime, so that asking wakes no other thread.
//!
//! The keeper's thread is always there, but to ask by way of it costs two wakes of a thread, which is more than the
//! server takes for its answer. So a runtime that asks often gets a connection of its own, in the background; until it
//! stands, whenever it does not, and where there is no runtime, the keeper's is used.
//!
//! A runtime may be blocked by its user, and what was asked there is then neither sent nor heard. So when the keeper
//! waits for what has to arrive, and the runtime does not poll its tasks, it is told that the outcome is unknown: it
//! asks again, by its own connection. Nothing is repeated here, for the second answer to a leave could hide that of the
//! first.

mod driven;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{Cmd, PushKind, RedisResult, Value};
use tidelock::{Name, Reply, Result, unharmed};
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use self::driven::Driven;
use crate::dial::{Dial, Dialed};
use crate::link::{Reach, WhenDropped, silent};
use crate::outbox::{Outbox, Queue};
use crate::{dial, pulse, script, trouble};

/// Whether runtimes get connections of their own when nobody has said so. Whether one can do I/O is nowhere to be
/// asked, and tokio panics where it cannot: the task that tries it ends, and the program too if panics abort it.
pub(crate) const BY_DEFAULT: bool = cfg!(panic = "unwind");
/// After how many questions a runtime gets a connection of its own: programs that end soon do without.
const OFTEN: u32 = 32;
/// How many runtimes have one at most.
const MOST: usize = 8;
/// How long the keeper trusts a runtime that has a question and does not poll its tasks.
const TRUST: Duration = Duration::from_millis(100);

/// The ways to one server that lie on callers' runtimes.
#[derive(Debug)]
pub(crate) struct Locals {
    dial: Arc<dyn Dial>,
    reach: Reach,
    known: Mutex<Vec<Local>>,
}

#[derive(Debug)]
struct Local {
    runtime: Id,
    asked: u32,
    way: Option<Arc<Way>>,
    /// It cannot do I/O.
    is_unfit: bool,
}

/// A connection that lives on one runtime, and ends with it.
#[derive(Debug)]
pub(crate) struct Way {
    outbox: Arc<Outbox>,
    driven: Arc<Driven>,
    is_given_up: AtomicBool,
    has_panicked: Arc<AtomicBool>,
    /// Runs for as long as the connection may be of use.
    task: AbortHandle,
    reach: Reach,
    place: String,
}

impl Locals {
    pub(crate) fn new(dial: Arc<dyn Dial>, reach: Reach) -> Self {
        Self { dial, reach, known: Mutex::default() }
    }

    /// The way on the runtime of whoever calls, if there is one and it stands.
    pub(crate) fn mine(&self) -> Option<Arc<Way>> {
        let here = Handle::try_current().ok().filter(|_| self.reach.has_locals)?;
        let id = here.id();
        if id == self.reach.runtime.id() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(local) = known.iter_mut().find(|local| local.runtime == id) else {
            make_room(&mut known);
            if known.len() < MOST {
                known.push(Local { runtime: id, asked: 1, way: None, is_unfit: false });
            }
            return None;
        };
        match &local.way {
            _ if local.is_unfit => return None,
            Some(way) if way.has_panicked() => {
                (local.way, local.is_unfit) = (None, true);
                drop(known); // whoever listens may lock something itself
                unharmed(|| {
                    tracing::warn!(
                        "a tokio runtime does no I/O, so its locks go by Tidelock's own; Store::connection_for_each_runtime(false) spares it the attempt"
                    );
                });
                return None;
            }
            Some(way) if way.is_broken() => (local.way, local.asked) = (None, 0),
            Some(way) => return way.outbox.stands().then(|| way.clone()),
            None => local.asked += 1,
        }
        if local.asked >= OFTEN {
            local.way = Some(Way::open(self.dial.clone(), self.reach.clone(), &here));
        }
        None
    }
}

/// Says whether it was dropped by a panic.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(std::thread::panicking(), Ordering::Release);
    }
}

/// Forgets the runtimes that have ended; and if there are too many still, one that has asked little so far.
fn make_room(known: &mut Vec<Local>) {
    known.retain(|local| local.way.as_ref().is_none_or(|way| !way.is_broken() || way.has_panicked()));
    if known.len() >= MOST
        && let Some(first) = known.iter().position(|local| local.way.is_none() && !local.is_unfit)
    {
        known.remove(first);
    }
}

impl Way {
    /// Connects in the background.
    fn open(dial: Arc<dyn Dial>, reach: Reach, here: &Handle) -> Arc<Self> {
        let place = dial.place();
        let ((outbox, queue), driven) = (Outbox::new(), Arc::<Driven>::default());
        let has_panicked = Arc::new(AtomicBool::new(false));
        let (witness, served, patience) = (Witness(has_panicked.clone()), outbox.clone(), reach.patience);
        let answering = driven.clone();
        let serving = async move {
            let _witness = witness;
            tokio::select! {
                biased;
                () = serve(dial, served, queue, patience.connect, patience.doubt) => {}
                () = answering.answer() => {}
            }
        };
        let (is_given_up, task) = (AtomicBool::new(false), here.spawn(serving).abort_handle());
        Arc::new(Self { outbox, driven, is_given_up, has_panicked, task, reach, place })
    }

    /// Whether it is not worth waiting for any more: its runtime may have ended, for instance.
    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }

    fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Asks one thing of a name. What is to be sent in any case is under way when this returns.
    pub(crate) fn ask(self: Arc<Self>, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let sending = Box::pin(send(self.outbox.clone(), command, when_dropped));
        let mut asking = Asking { way: self, sending, has_to_arrive: None, distrust: None };
        if when_dropped == WhenDropped::Send {
            asking.has_to_arrive = Some(name.clone());
            // Its first poll hands it to the connection; whoever waits polls it again.
            if let Poll::Ready(reply) = asking.sending.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                let reply = asking.finish(reply);
                return Box::pin(std::future::ready(reply));
            }
        }
        Box::pin(asking)
    }
}

/// Connects, and sends what is asked, for as long as the connection may be of use.
async fn serve(dial: Arc<dyn Dial>, outbox: Arc<Outbox>, queue: Queue, within: Duration, doubt: Duration) {
    let connected = dial::within(within, dial.dial(within)).await;
    let Ok(Dialed { connection, mut pushes, mut tenure }) = connected else { return };
    // Nothing is subscribed to, so all that is told is its end.
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

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A question under way.
struct Asking<F> {
    way: Arc<Way>,
    sending: Pin<Box<F>>,
    /// On which name, if it has to arrive.
    has_to_arrive: Option<Name>,
    /// Ends when the keeper, if it is who asks, trusts the runtime no more.
    distrust: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<F: Future<Output = RedisResult<Value>>> Asking<F> {
    fn finish(&mut self, reply: RedisResult<Value>) -> Result<Value> {
        if reply.as_ref().map_or(true, trouble::is_read_only) {
            self.way.give_up();
        }
        if reply.is_err() {
            self.miss();
        }
        let reply = reply.map_err(|error| trouble::from(error, &self.way.place))?;
        self.way.reach.news.replied(&reply);
        Ok(reply)
    }

    /// The answer will not be heard, nor what it would have told, perhaps, of others who wait for this name.
    fn miss(&self) {
        if let Some(name) = &self.has_to_arrive {
            self.way.reach.news.missed_on(name);
        }
    }

    /// Waits until the keeper, if it is who asks, trusts the runtime no more.
    fn poll_distrust(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_keeper = || Handle::try_current().is_ok_and(|here| here.id() == self.way.reach.runtime.id());
        if self.has_to_arrive.is_none() || (self.distrust.is_none() && !is_keeper()) {
            return Poll::Pending;
        }
        let driven = &self.way.driven;
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
        // The connection stays: others wait for answers there, and the network may only be slow. Whether it has fallen
        // silent its pulse tells.
        self.miss();
        Poll::Ready(Err(silent(&self.way.place)))
    }
}
