//! How long the machine itself stood still while a trial ran.
//!
//! A thread sleeps for a moment, again and again. What a sleep took too long, the machine had no time for us: another
//! program had the processors, or a virtual machine did not run. Upper bounds on real time are extended by that,
//! because a slow machine is not a broken lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tidelock_core::backend::Moment;

use crate::Time;

/// How long a sleep lasts.
const NAP: Duration = Duration::from_millis(5);
/// A timer may be so late without any stall.
const USUAL: Duration = Duration::from_millis(5);

/// The stalls during one trial.
#[derive(Debug)]
pub(crate) struct Stalls(Mutex<Log>);

#[derive(Debug)]
struct Log {
    stalls: Vec<Stall>,
    /// When the last sleep ended. None: nobody sleeps, because this time is turned by hand.
    awake: Option<Moment>,
    /// Whether a bound was met only because it was extended.
    mattered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stall {
    end: Moment,
    lasted: Duration,
}

impl Stalls {
    /// Watches for stalls in real time until this is dropped. A clock turned by hand has none.
    pub(crate) fn watched(time: &Arc<dyn Time>) -> Arc<Self> {
        let stalls = Arc::new(Self::none());
        if time.is_real() {
            stalls.log().awake = Some(time.now());
            let (theirs, time) = (Arc::downgrade(&stalls), time.clone());
            // Without this thread, no bound is extended.
            let _ = thread::Builder::new().name("stalls".to_owned()).spawn(move || watch(&theirs, &*time));
        }
        stalls
    }

    fn none() -> Self {
        Self(Mutex::new(Log { stalls: Vec::new(), awake: None, mattered: false }))
    }

    /// How long the machine stood still between `began` and `now`.
    pub(crate) fn between(&self, began: Moment, now: Moment) -> Duration {
        let log = self.log();
        let under_way = log.awake.and_then(|awake| stall(awake, now));
        let stalls = log.stalls.iter().chain(&under_way);
        stalls.map(|stall| stall.lasted.min(stall.end.since(began))).sum()
    }

    /// Whether what began then took less than `bound`, up to now, apart from the stalls meanwhile.
    pub(crate) fn excuse(&self, began: Moment, now: Moment, bound: Duration) -> bool {
        let took = now.since(began);
        let is_excused = took >= bound && took < bound + self.between(began, now);
        self.log().mattered |= is_excused;
        took < bound || is_excused
    }

    /// The sum of all stalls, and whether a bound was met only because of them.
    pub(crate) fn verdict(&self) -> (Duration, bool) {
        let log = self.log();
        (log.stalls.iter().map(|stall| stall.lasted).sum(), log.mattered)
    }

    fn woke(&self, now: Moment) {
        let mut log = self.log();
        let found = log.awake.and_then(|awake| stall(awake, now));
        log.stalls.extend(found);
        log.awake = Some(now);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a sleep from `awake` on took too long, if it ends now.
fn stall(awake: Moment, now: Moment) -> Option<Stall> {
    let lasted = now.since(awake).saturating_sub(NAP);
    (lasted > USUAL).then_some(Stall { end: now, lasted })
}

fn watch(stalls: &Weak<Stalls>, time: &dyn Time) {
    loop {
        thread::sleep(NAP);
        let Some(stalls) = stalls.upgrade() else { return };
        stalls.woke(time.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::from_nanos(milliseconds * 1_000_000)
    }

    const MS: Duration = Duration::from_millis(1);

    /// Sleeps that ended at these milliseconds.
    fn stalls(woke: &[u64]) -> Stalls {
        let stalls = Stalls::none();
        woke.iter().for_each(|moment| stalls.woke(at(*moment)));
        stalls
    }

    #[test]
    fn what_a_sleep_took_too_long_is_a_stall() {
        let stalls = stalls(&[1_000, 1_005, 1_013, 1_318, 1_323]); // 1_013 is as late as timers are
        assert_eq!(stalls.between(at(1_000), at(1_323)), 300 * MS);
        assert_eq!(stalls.between(at(1_318), at(1_323)), Duration::ZERO);
        assert_eq!(stalls.between(at(1_218), at(1_323)), 100 * MS, "only its part since then");
        assert_eq!(stalls.verdict(), (300 * MS, false));
    }

    #[test]
    fn a_stall_that_nobody_has_noticed_yet_counts_too() {
        let stalls = stalls(&[1_000]);
        assert_eq!(stalls.between(at(1_000), at(1_405)), 400 * MS);
        assert_eq!(Stalls::none().between(at(1_000), at(9_000)), Duration::ZERO, "time is turned by hand");
    }

    #[test]
    fn a_bound_is_extended_by_stalls_and_by_nothing_else() {
        let stalls = stalls(&[1_000, 1_305]);
        assert!(stalls.excuse(at(1_000), at(1_200), 201 * MS) && !stalls.verdict().1);
        assert!(!stalls.excuse(at(1_000), at(1_310), 5 * MS) && !stalls.verdict().1);
        assert!(stalls.excuse(at(1_000), at(1_310), 20 * MS) && stalls.verdict().1);
        assert!(!self::stalls(&[1_000]).excuse(at(1_000), at(1_008), 5 * MS));
    }
}
