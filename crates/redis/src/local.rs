//! A way to the server on the caller's own runtime, so that asking wakes no other thread.
//!
//! The keeper's thread is always there, but to ask by way of it costs two wakes of a thread, which is more than the
//! server takes for its answer. So a runtime that asks often gets a connection of its own, in the background; until it
//! stands, whenever it does not, and where there is no runtime, the keeper's is used.
//!
//! A runtime may be blocked by its user, or end. What has to arrive all the same is therefore taken back by whoever
//! waits for it elsewhere, which is the keeper: from a queue that nobody empties, to a connection that is served.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use redis::{Cmd, Value};
use tidelock::Result;
use tokio::runtime::{Handle, Id};

use crate::dial::Dial;
use crate::fleet::WhenDropped;
use crate::link::{Answer, Link};
use crate::server::Reach;

/// After how many questions a runtime gets a connection of its own: programs that end soon do without.
const OFTEN: u32 = 32;
/// How many runtimes have one at most.
const MOST: usize = 8;

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
    link: Option<Arc<Link>>,
}

impl Locals {
    pub(crate) fn new(dial: Arc<dyn Dial>, reach: Reach) -> Self {
        Self { dial, reach, known: Mutex::default() }
    }

    /// The way on the runtime of whoever calls, if there is one and it stands.
    pub(crate) fn mine(&self) -> Option<(Arc<Link>, Id)> {
        let here = Handle::try_current().ok()?;
        let id = here.id();
        if id == self.reach.runtime.id() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(local) = known.iter_mut().find(|local| local.runtime == id) else {
            known.retain(|local| local.link.as_ref().is_some_and(|link| !link.has_ended()));
            if known.len() < MOST {
                known.push(Local { runtime: id, asked: 1, link: None });
            }
            return None;
        };
        if let Some(link) = &local.link {
            return link.stands().then(|| (link.clone(), id));
        }
        local.asked += 1;
        if local.asked >= OFTEN {
            let Reach { news, patience, .. } = self.reach.clone();
            local.link = Some(Arc::new(Link::eager(self.dial.clone(), news, patience, &here)));
        }
        None
    }
}

/// A question that lies on a runtime which may not come to it.
pub(crate) struct Rescued {
    /// Until it is taken back.
    command: Option<Cmd>,
    /// Whether somebody has begun to send it.
    is_taken: Arc<AtomicBool>,
    runtime: Id,
    reply: Answer,
    otherwise: Arc<Link>,
}

impl Rescued {
    /// Asks by way of `local`, and of `otherwise` if that does not come to it.
    pub(crate) fn ask(command: Cmd, (local, runtime): (Arc<Link>, Id), otherwise: Arc<Link>) -> Self {
        let is_taken = Arc::new(AtomicBool::new(false));
        let reply = local.send_unless(is_taken.clone(), command.clone());
        Self { command: Some(command), is_taken, runtime, reply, otherwise }
    }
}

impl Future for Rescued {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let is_elsewhere = || Handle::try_current().map_or(true, |here| here.id() != self.runtime);
        if self.command.is_some() && is_elsewhere() {
            let command = self.command.take();
            if !self.is_taken.swap(true, Ordering::AcqRel) {
                self.reply = self.otherwise.send(command.into_iter().collect(), WhenDropped::Send);
            }
        }
        Pin::new(&mut self.reply).poll(cx).map(|replies| Ok(replies?.pop().unwrap_or_default()))
    }
}
