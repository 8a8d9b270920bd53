//! What goes wrong with a request: a plan made by a test, consulted once for every request.
//!
//! A flag says whether there is a plan at all, so a store without one only pays for reading the flag.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tidelock_core::backend::{Clock, Sleep};
use tidelock_core::{Error, ErrorKind, Result};

#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    any: AtomicBool,
    plan: Mutex<Plan>,
}

/// What is to go wrong from now on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many requests are still to be refused.
    pub(crate) refuse: usize,
    /// How many replies are still to be lost.
    pub(crate) lose_replies: usize,
    /// How long a request takes, there and back.
    pub(crate) delay: Duration,
    /// Whether signals are lost.
    pub(crate) drop_signals: bool,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mishap {
    /// The fault that refuses it, if one does.
    refuse: Option<&'static str>,
    lose_reply: bool,
    delay: Duration,
}

/// A request on its way there and back, each for half of the delay, on the store's clock.
#[derive(Debug)]
pub(crate) struct Journey {
    mishap: Mishap,
    there: Option<Sleep>,
    back: Sleep,
}

impl Mishaps {
    /// What happens to the next request, if anything does.
    pub(crate) fn next(&self) -> Option<Mishap> {
        self.any.load(Ordering::Acquire).then(|| self.change(Plan::next))
    }

    /// Whether signals arrive.
    pub(crate) fn let_signals_pass(&self) -> bool {
        !self.any.load(Ordering::Acquire) || self.change(|plan| !plan.drop_signals)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Plan) -> T) -> T {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut plan);
        self.any.store(*plan != Plan::default(), Ordering::Release);
        outcome
    }
}

impl Plan {
    fn next(&mut self) -> Mishap {
        let delay = self.delay;
        let by = if self.refuse == usize::MAX { "Faults::refuse_all" } else { "Faults::refuse_next" };
        let refuse = count_down(&mut self.refuse).then_some(by);
        let lose_reply = refuse.is_none() && count_down(&mut self.lose_replies);
        Mishap { refuse, lose_reply, delay }
    }
}

impl Mishap {
    /// A request with this mishap, sent now.
    pub(crate) fn send(self, clock: &Arc<dyn Clock>) -> Journey {
        let sent = clock.now();
        Journey {
            mishap: self,
            there: Some(Sleep::until(clock, sent + self.delay / 2)),
            back: Sleep::until(clock, sent + self.delay),
        }
    }
}

impl Journey {
    /// The way there. Both alarms are set at once: `Clock::pass` could run past one that is set later.
    pub(crate) async fn there(&mut self) -> Result<()> {
        poll_fn(|cx| {
            let _ = Pin::new(&mut self.back).poll(cx);
            self.there.as_mut().map_or(Poll::Ready(()), |there| Pin::new(there).poll(cx))
        })
        .await;
        self.arrive()
    }

    /// The arrival, without the time on the way there.
    pub(crate) fn arrive(&self) -> Result<()> {
        if let Some(by) = self.mishap.refuse {
            let refused = format!("a test made the store refuse this request (`{by}`)");
            return Err(Error::new(ErrorKind::Unavailable, refused));
        }
        Ok(())
    }

    /// The way back.
    pub(crate) async fn back(&mut self) -> Result<()> {
        // This alarm has rung and is dealt with: `Clock::pass` need not wait for it any more.
        drop(self.there.take());
        (&mut self.back).await;
        if self.mishap.lose_reply {
            let lost = "a test made the store lose this reply (`Faults::lose_replies`)";
            return Err(Error::new(ErrorKind::Timeout, lost));
        }
        Ok(())
    }
}

/// Takes one of what is left, and returns whether there was any. `usize::MAX` never runs out.
fn count_down(left: &mut usize) -> bool {
    let any = *left > 0;
    if any && *left < usize::MAX {
        *left -= 1;
    }
    any
}
