//! What goes wrong with a request: a plan that a test makes, asked once for every request.
//!
//! A flag says whether there is a plan at all, so a store without one pays no more than to read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock::{Clock, Error, ErrorKind, Result, Sleep};

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
    /// Whether what is pushed gets lost.
    pub(crate) drop_signals: bool,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mishap {
    refuse: bool,
    lose_reply: bool,
    delay: Duration,
}

impl Mishaps {
    /// What happens to the next request, if anything does.
    pub(crate) fn next(&self) -> Option<Mishap> {
        self.any.load(Ordering::Acquire).then(|| self.change(Plan::next))
    }

    /// Whether what is pushed arrives.
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
        let refuse = count_down(&mut self.refuse);
        let lose_reply = !refuse && count_down(&mut self.lose_replies);
        Mishap { refuse, lose_reply, delay }
    }
}

impl Mishap {
    pub(crate) async fn on_the_way_there(self, clock: &Arc<dyn Clock>) -> Result<()> {
        self.wait(clock).await;
        self.refuse()
    }

    pub(crate) async fn on_the_way_back(self, clock: &Arc<dyn Clock>) -> Result<()> {
        self.wait(clock).await;
        if self.lose_reply {
            return Err(Error::new(ErrorKind::Timeout, "the reply was lost, as a test wished"));
        }
        Ok(())
    }

    pub(crate) fn refuse(self) -> Result<()> {
        if self.refuse {
            return Err(Error::new(ErrorKind::Unavailable, "the store refuses to serve, as a test wished"));
        }
        Ok(())
    }

    /// Half of the delay, on the store's clock.
    async fn wait(self, clock: &Arc<dyn Clock>) {
        if !self.delay.is_zero() {
            Sleep::until(clock, clock.now() + self.delay / 2).await;
        }
    }
}

/// One less of what is left; as many as a number can say never run out.
fn count_down(left: &mut usize) -> bool {
    let any = *left > 0;
    if any && *left < usize::MAX {
        *left -= 1;
    }
    any
}
