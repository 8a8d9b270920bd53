//! A bell that rings when the linger of a turn is over, if somebody waits by then: the next turn begins although the hold
//! goes on. So a hold that lasts longer than the linger delays nobody's place in the store's line.
//!
//! A local line has one bell at most. When that rings too early, because other turns have begun meanwhile, it is wound up
//! again: it costs something once in a linger, and not at each turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use super::line::Cohort;
use super::turn::{Lead, News};
use crate::backend::{Clock, Moment, Sleep};
use crate::sync::Mutex;

pub(super) struct Bell {
    cohort: Weak<Cohort<News>>,
    clock: Arc<dyn Clock>,
    /// Until it rings.
    sleep: Mutex<Option<Sleep>>,
}

/// The line's hold on its bell. Without it the bell never rings.
struct Owned(Arc<Bell>);

impl Cohort<News> {
    /// Somebody may wait behind a hold: then the next turn begins when the linger of this one is over.
    pub(super) fn watch_linger(self: &Arc<Self>, clock: &Arc<dyn Clock>) {
        let mut line = self.line.lock();
        if line.bell.is_some() || line.first().is_none() {
            return;
        }
        let Some(ends) = line.ends else { return };
        let cohort = Arc::downgrade(self);
        let bell = Arc::new(Bell { cohort, clock: clock.clone(), sleep: Mutex::new(None) });
        line.bell = Some(Box::new(Owned(bell.clone())));
        drop(line);
        bell.wind_up(ends);
    }

    fn linger_is_over(self: &Arc<Self>, bell: &Arc<Bell>) {
        let now = bell.clock.now();
        let mut line = self.line.lock();
        let (turn, ends) = (line.turn, line.ends);
        match ends.filter(|_| line.first().is_some()) {
            Some(ends) if now < ends => {
                drop(line);
                bell.wind_up(ends);
            }
            ends => {
                let owned = line.bell.take();
                drop(line);
                drop(owned);
                if ends.is_some() {
                    Lead::pass_on(self, turn, None);
                }
            }
        }
    }
}

impl Bell {
    /// Rings at this moment.
    fn wind_up(self: &Arc<Self>, at: Moment) {
        *self.sleep.lock() = Some(Sleep::until(&self.clock, at));
        self.look();
    }

    fn look(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut sleep = self.sleep.lock();
        let is_time = |sleep: &mut Sleep| Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_ready();
        let rung = if sleep.as_mut().is_some_and(is_time) { sleep.take() } else { None };
        drop(sleep);
        if rung.is_some()
            && let Some(cohort) = self.cohort.upgrade()
        {
            cohort.linger_is_over(self);
        }
        drop(rung); // a clock that is turned by hand waits until the work is done
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let sleep = self.0.sleep.lock().take();
        drop(sleep); // without the lock
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
