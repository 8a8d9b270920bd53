//! A switchover: another server accepts the writes now, and connections to the one of before still stand.
//!
//! The server that was demoted goes on answering whoever only reads, with what it knew before. So the first of a session's
//! connections that is refused ends all those that were made before. A server that is read-only for good is asked again and
//! again; so that it does not get a new connection each time, one that was just made is kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::backend::Moment;

/// The least time between two of them.
const APART: Duration = Duration::from_millis(500);

/// When the last one was noticed, in nanoseconds of the clock.
#[derive(Debug, Default)]
pub(crate) struct Switchover(AtomicU64);

impl Switchover {
    /// Whether a connection that was made then may lead to the server of before.
    pub(crate) fn is_after(&self, made: Moment) -> bool {
        made.as_nanos() < self.0.load(Ordering::Acquire)
    }

    /// A connection that was made then was refused because its server accepts no writes. Whether a new one may lead to
    /// another server.
    pub(crate) fn is_noticed(&self, made: Moment, now: Moment) -> bool {
        let last = Moment::from_nanos(self.0.load(Ordering::Acquire));
        let is_due = now >= last + APART;
        if is_due {
            self.happens(now);
        }
        is_due || made < last
    }

    /// Another server has answered.
    pub(crate) fn happens(&self, now: Moment) {
        self.0.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_of_before_end_and_one_that_was_just_made_is_kept() {
        let (switchover, at) =
            (Switchover::default(), |millis: u64| Moment::from_nanos(1_000_000_000 + millis * 1_000_000));
        assert!(!switchover.is_after(at(0)));
        assert!(switchover.is_noticed(at(0), at(10)));
        assert!(switchover.is_after(at(9)) && !switchover.is_after(at(10)));
        // Another of the same session, and the new one, which leads to the same server.
        assert!(switchover.is_noticed(at(5), at(20)));
        assert!(!switchover.is_noticed(at(11), at(20)));
        assert!(!switchover.is_noticed(at(11), at(509)) && !switchover.is_after(at(11)));
        // Later it may be another one.
        assert!(switchover.is_noticed(at(11), at(510)) && switchover.is_after(at(11)));
    }
}
