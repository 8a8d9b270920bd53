//! The ttl that the store granted, and what follows from it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::scatter::scatter;
use crate::backend::Moment;
use crate::sync::AtomicU64;

/// How soon a line may be looked at again if the ttl is long.
const SOONEST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Ttl {
    /// A third of the ttl. Loom does not have to track it: a reader that misses a change sees it at the next renewal.
    third: std::sync::atomic::AtomicU64,
    /// A third of the ttl less the time limit of a look: the longest time without a look at a line.
    longest_wait: AtomicU64,
    /// By how much deadlines are shortened to allow for clock drift.
    margin: AtomicU64,
}

impl Ttl {
    pub(super) fn new() -> Self {
        Self {
            third: std::sync::atomic::AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            margin: AtomicU64::new(0),
        }
    }

    pub(super) fn set(&self, ttl: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.third.store(nanos(ttl / 3), Ordering::Release);
        self.longest_wait.store(nanos(ttl / 10 * 3), Ordering::Release);
        let margin = ttl / 500 + Duration::from_millis(5);
        self.margin.store(if seeded!("clocks_never_drift") { 0 } else { nanos(margin) }, Ordering::Release);
    }

    pub(super) fn third(&self) -> Duration {
        Duration::from_nanos(self.third.load(Ordering::Acquire))
    }

    pub(super) fn margin(&self) -> Duration {
        Duration::from_nanos(self.margin.load(Ordering::Acquire))
    }

    /// When to look: soon after the holder's lease ends, spread over a twentieth of it by `seed`, and never later than
    /// the longest time without a look.
    pub(super) fn look_at(&self, now: Moment, look_in: Duration, seed: u64) -> Moment {
        let longest = Duration::from_nanos(self.longest_wait.load(Ordering::Acquire));
        let spread = (scatter(seed) >> 40) as f64 / (1_u64 << 24) as f64;
        // Guards against a store that always says "at once". A holder's ttl may be much shorter than ours.
        let look_in = look_in.max((longest / 100).min(SOONEST));
        if look_in < longest {
            now + look_in + (look_in / 20).mul_f64(spread)
        } else {
            now + longest - (longest / 10).mul_f64(spread)
        }
    }
}
