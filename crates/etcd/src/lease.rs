//! Until when the session surely lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::backend::Moment;

/// The session's lease: its granted time to live, counted from before the request that was proved to have renewed it.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    until: AtomicU64,
    /// Until when it lives for all that core was told. A renewal that core gave up may have proved more.
    told: AtomicU64,
}

impl Lease {
    /// A lease that was granted for this time, by a request sent at that moment.
    pub(crate) fn new(ttl: Duration, sent: Moment) -> Self {
        let until = (sent + ttl).as_nanos();
        Self { ttl, until: AtomicU64::new(until), told: AtomicU64::new(until) }
    }

    /// A renewal that was sent at that moment is proved.
    pub(crate) fn renewed(&self, sent: Moment) {
        self.until.fetch_max((sent + self.ttl).as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Relaxed))
    }

    /// Whether a longer life was proved than core was told.
    pub(crate) fn has_news(&self) -> bool {
        self.until.load(Ordering::Relaxed) > self.told.load(Ordering::Relaxed)
    }

    pub(crate) fn is_told(&self, until: Moment) {
        self.told.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }
}
