//! A bell that rings when the linger of a turn is over, if somebody waits by then: the next turn begins although the hold
//! goes on. So a hold that lasts longer than the linger delays nobody's place in the store's line.
//!
//! It rings, too, now and then while somebody leads: a task that leads and is not polled may be without a claim, or have one
//! that was granted and that readers could share, and would keep everybody behind it from the lock. When it comes back it
//! stands in line for itself alone.
//!
//! A local line has one bell at most; one that it has put away does nothing when it rings all the same. When the bell rings
//! too early, because other turns have begun meanwhile, it is wound up again: it costs something once in a linger, and not
//! at each turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::line::{Cohort, Rings, Wound};
use super::turn::{Lead, News};
use crate::backend::{Clock, Moment, Sleep};
use crate::sync::Mutex;

pub(super) struct Bell {
    cohort: Weak<Cohort<News>>,
    clock: Arc<dyn Clock>,
    /// Until it rings.
    sleep: Mutex<Option<Sleep>>,
}

impl Cohort<News> {
    /// Somebody may wait: then the next turn begins when the linger of this one is over, or when nobody leads in truth.
    pub(super) fn watch(self: &Arc<Self>, clock: &Arc<dyn Clock>) {
        let mut line = self.line.lock();
        if line.first().is_none() {
            return;
        }
        let at = line.ends.unwrap_or_else(|| clock.now() + self.pause());
        if line.bell.as_ref().is_some_and(|wound| wound.at <= at) {
            return;
        }
        let bell: Arc<dyn Rings> = match line.bell.take() {
            Some(wound) => wound.bell.clone(),
            None => {
                let cohort = Arc::downgrade(self);
                Arc::new(Bell { cohort, clock: clock.clone(), sleep: Mutex::new(None) })
            }
        };
        line.bell = Some(Wound { at, bell: bell.clone() });
        drop(line);
        bell.wind_up();
    }

    /// Looks whether this turn is over. Returns whether the bell has to ring again.
    pub(super) fn look_after(self: &Arc<Self>, now: Moment, bell: &dyn Rings) -> bool {
        if self.rings_at(bell).is_none() {
            return false; // another one does that by now
        }
        self.begin_next(now);
        let mut line = self.line.lock();
        // Otherwise somebody may have come just now, who relies on this bell: then it rings again at once. And who leads may
        // not be polled: then tries must ask the store.
        if line.first().is_none() && line.is_known() && line.has_bell(bell) {
            line.bell = None;
        }
        line.has_bell(bell)
    }

    /// When this bell rings, if it is still the one of this line.
    pub(super) fn rings_at(&self, bell: &dyn Rings) -> Option<Moment> {
        let line = self.line.lock();
        line.bell.as_ref().filter(|_| line.has_bell(bell)).map(|wound| wound.at)
    }

    /// Begins the next turn if this one is over. The bell rings again, if anybody waits.
    fn begin_next(self: &Arc<Self>, now: Moment) {
        let mut line = self.line.lock();
        let turn = line.turn;
        let is_over = match line.ends {
            Some(ends) => now >= ends && !seeded!("a_linger_never_ends"),
            None => line.is_neglected(now, self.patience()),
        };
        let is_over = is_over && line.first().is_some();
        let soon = now + self.pause();
        let again = line.ends.filter(|ends| now < *ends).unwrap_or(soon);
        // In the same step: a hold that begins a moment later may need it earlier, and then finds that it rings too late.
        if let Some(wound) = &mut line.bell {
            wound.at = if wound.at > now { wound.at.min(again) } else { again };
        }
        drop(line);
        if is_over {
            Lead::pass_on(self, turn, None);
        }
    }

    fn patience(&self) -> Duration {
        self.all.upgrade().map_or(Duration::MAX, |all| all.patience)
    }

    fn pause(&self) -> Duration {
        self.all.upgrade().map_or(Duration::MAX, |all| all.pause)
    }
}

impl Rings for Bell {
    fn wind_up(self: Arc<Self>) {
        let cohort = self.cohort.upgrade(); // dropped without the lock: its end stops this bell
        let mut sleep = self.sleep.lock();
        let at = cohort.as_ref().and_then(|cohort| cohort.rings_at(&*self)); // of several that wind it up, all say the same
        let before = std::mem::replace(&mut *sleep, at.map(|at| Sleep::until(&self.clock, at)));
        drop(sleep);
        drop((before, cohort));
        self.look();
    }

    fn stop(&self) {
        let sleep = self.sleep.lock().take();
        drop(sleep); // without the lock
    }
}

impl Bell {
    fn look(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut sleep = self.sleep.lock();
        let is_time = |sleep: &mut Sleep| Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_ready();
        let rung = if sleep.as_mut().is_some_and(is_time) { sleep.take() } else { None };
        drop(sleep);
        if rung.is_some()
            && let Some(cohort) = self.cohort.upgrade()
            && cohort.look_after(self.clock.now(), &**self)
        {
            self.clone().wind_up();
        }
        drop(rung); // a clock that is turned by hand waits until the work is done
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
