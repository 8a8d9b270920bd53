//! A way to the server on the caller's own runtime, so that asking wakes no other thread.
//!
//! The keeper's thread is always there, but to ask by way of it costs two wakes of a thread, which is more than the
//! server takes for its answer. So a runtime that asks often gets a connection of its own, in the background; until it
//! stands, whenever it does not, and where there is no runtime, the keeper's is used.
//!
//! A runtime may be blocked by its user. What has to arrive all the same is therefore asked once more by whoever waits
//! for it elsewhere, which is the keeper. A leave is harmless twice, and its answer is the first that comes.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{Cmd, PushKind, RedisResult, Value};
use tidelock::{Moment, Reply, Result, Sleep, boot_clock};
use tokio::runtime::{Handle, Id};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::AbortHandle;

use crate::dial::Dial;
use crate::link::{Link, Reach, WhenDropped};
use crate::outbox::Outbox;
use crate::{script, trouble};

/// After how many questions a runtime gets a connection of its own: programs that end soon do without.
const OFTEN: u32 = 32;
/// How many runtimes have one at most.
const MOST: usize = 8;
/// How long whoever waits elsewhere trusts the runtime that has the question.
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
}

/// A connection that lives on one runtime, and ends with it.
#[derive(Debug)]
pub(crate) struct Way {
    runtime: Id,
    outbox: Arc<Outbox>,
    is_given_up: AtomicBool,
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
        let here = Handle::try_current().ok()?;
        let id = here.id();
        if id == self.reach.runtime.id() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(local) = known.iter_mut().find(|local| local.runtime == id) else {
            make_room(&mut known);
            if known.len() < MOST {
                known.push(Local { runtime: id, asked: 1, way: None });
            }
            return None;
        };
        match &local.way {
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

/// Forgets the runtimes that have ended; and if there are too many still, one that has asked little so far.
fn make_room(known: &mut Vec<Local>) {
    known.retain(|local| local.way.as_ref().is_none_or(|way| !way.is_broken()));
    if known.len() >= MOST
        && let Some(first) = known.iter().position(|local| local.way.is_none())
    {
        known.remove(first);
    }
}

impl Way {
    /// Connects in the background.
    fn open(dial: Arc<dyn Dial>, reach: Reach, here: &Handle) -> Arc<Self> {
        let (place, within) = (dial.place(), reach.patience.connect);
        let (outbox, queue) = Outbox::new();
        let served = outbox.clone();
        let task = here.spawn(async move {
            // The runtime may have no timer.
            let clock = boot_clock();
            let (pushes, mut told) = unbounded_channel();
            let late = Sleep::until(&clock, clock.now() + within);
            let connected = tokio::select! {
                connected = dial.dial(within, pushes) => connected.ok(),
                () = late => None,
            };
            if let Some(connection) = connected {
                // Nothing is subscribed to, so all that is told is its end.
                let end = async {
                    while told.recv().await.is_some_and(|push| push.kind != PushKind::Disconnection) {}
                };
                tokio::select! {
                    biased;
                    () = end => {}
                    () = served.serve(connection, queue) => {}
                }
            }
        });
        let (is_given_up, task) = (AtomicBool::new(false), task.abort_handle());
        Arc::new(Self { runtime: here.id(), outbox, is_given_up, task, reach, place })
    }

    /// Whether it is not worth waiting for any more: its runtime may have ended, for instance.
    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Asks one thing. What is to be sent in any case is under way when this returns, and goes by `otherwise` too if
    /// this runtime does not come to it.
    pub(crate) fn ask(
        self: Arc<Self>,
        command: Cmd,
        when_dropped: WhenDropped,
        otherwise: &Arc<Link>,
    ) -> Reply<Value> {
        let again = (when_dropped == WhenDropped::Send).then(|| (command.clone(), otherwise.clone()));
        // A little before core gives up, so that this one knows why it is dropped.
        let given_up_at = boot_clock().now() + self.reach.patience.answer * 9 / 10;
        let sending = Box::pin(send(self.outbox.clone(), command, when_dropped));
        let mut asking = Asking { way: self, sending, again, rescue: None, given_up_at, is_done: false };
        if when_dropped == WhenDropped::Send {
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
    /// What is asked once more if the runtime does not come to it, and by which way.
    again: Option<(Cmd, Arc<Link>)>,
    rescue: Option<(Sleep, Option<Reply<Value>>)>,
    given_up_at: Moment,
    is_done: bool,
}

impl<F: Future<Output = RedisResult<Value>>> Asking<F> {
    fn finish(&mut self, reply: RedisResult<Value>) -> Result<Value> {
        self.is_done = true;
        if reply.as_ref().map_or(true, trouble::is_read_only) {
            self.way.give_up();
        }
        let reply = reply.map_err(|error| trouble::from(error, &self.way.place))?;
        self.way.reach.news.replied(&reply);
        Ok(reply)
    }

    /// Asks once more, when whoever waits elsewhere has waited for long enough.
    fn rescue(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value>> {
        let is_elsewhere = || Handle::try_current().map_or(true, |here| here.id() != self.way.runtime);
        if self.again.is_none() || (self.rescue.is_none() && !is_elsewhere()) {
            return Poll::Pending;
        }
        let clock = boot_clock();
        let (sleep, asked) =
            self.rescue.get_or_insert_with(|| (Sleep::until(&clock, clock.now() + TRUST), None));
        if asked.is_none() {
            std::task::ready!(Pin::new(sleep).poll(cx));
            let again = self.again.clone().map(|(command, link)| link.ask(command, WhenDropped::Send));
            *asked = again.map(|again| Box::pin(again) as Reply<Value>);
        }
        match asked {
            Some(asked) => asked.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F: Future<Output = RedisResult<Value>>> Future for Asking<F> {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(reply) = self.sending.as_mut().poll(cx) {
            return Poll::Ready(self.finish(reply));
        }
        let reply = std::task::ready!(self.rescue(cx));
        self.is_done = true;
        self.way.give_up(); // silent, or on a runtime that is blocked: a new one is soon made
        self.way.reach.news.missed(); // what the first answer told, perhaps
        Poll::Ready(reply)
    }
}

impl<F> Drop for Asking<F> {
    /// A connection that has not answered for as long as anyone waits is not asked again.
    fn drop(&mut self) {
        if !self.is_done && boot_clock().now() >= self.given_up_at {
            self.way.give_up();
        }
    }
}
