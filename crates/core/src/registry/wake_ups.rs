//! When the keeper wakes by itself, and what wakes it earlier.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use crate::backend::Moment;
use crate::sync::AtomicU64;

#[derive(Debug)]
pub(crate) struct WakeUps {
    /// When the keeper will look at lines by itself. A claim that needs it earlier nudges it.
    next_look: AtomicU64,
    /// When the keeper will check deadlines. A claim whose deadline is earlier nudges it.
    next_deadline: AtomicU64,
    /// When the keeper will renew everything. Loom does not have to track it: a reader that misses a change sees it at
    /// the next renewal.
    next_renewal: std::sync::atomic::AtomicU64,
    /// What the keeper is to renew before that: a number of [`EarlyRenewal`].
    early_renewal: AtomicU8,
    nudge: Notify,
}

/// What the keeper is to renew ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EarlyRenewal {
    /// All claims that have too little time left.
    Short = 1,
    /// All claims: earlier reports of how long they live may be wrong by now.
    All = 2,
}

impl WakeUps {
    pub(super) fn new() -> Self {
        Self {
            next_look: AtomicU64::new(0),
            next_deadline: AtomicU64::new(u64::MAX),
            next_renewal: std::sync::atomic::AtomicU64::new(0),
            early_renewal: AtomicU8::new(0),
            nudge: Notify::new(),
        }
    }

    /// Waits until the keeper is needed earlier.
    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    pub(super) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// The keeper is awake and does not know yet when it looks next: every new waiter nudges it.
    pub(crate) fn keeper_is_awake(&self) {
        self.next_look.store(u64::MAX, Ordering::Release);
    }

    /// The keeper will look at `at`. Returns when it has to wake: then, or earlier for the first deadline.
    pub(super) fn keeper_looks_at(&self, at: Moment) -> Moment {
        self.next_look.store(at.as_nanos(), Ordering::Release);
        at.min(Moment::from_nanos(self.next_deadline.load(Ordering::Acquire)))
    }

    /// A look is due at `at`.
    pub(super) fn look_by(&self, at: Moment) {
        if at.as_nanos() < self.next_look.load(Ordering::Acquire) {
            self.nudge();
        }
    }

    /// A claim's time is over at `at`.
    pub(super) fn check_by(&self, at: Moment) {
        if at.as_nanos() < self.next_deadline.load(Ordering::Acquire) {
            self.next_deadline.store(0, Ordering::Release);
            self.nudge();
        }
    }

    /// Whether it is time to check deadlines. After that, the keeper checks none until it is told of one.
    pub(super) fn is_check_due(&self, now: Moment) -> bool {
        let is_due = now.as_nanos() >= self.next_deadline.load(Ordering::Acquire);
        if is_due {
            self.next_deadline.store(u64::MAX, Ordering::Release);
        }
        is_due
    }

    /// The keeper, which is awake, has to check deadlines at `at` at the latest.
    pub(super) fn next_check(&self, at: Moment) {
        self.next_deadline.fetch_min(at.as_nanos(), Ordering::AcqRel);
    }

    /// When the keeper will renew everything.
    pub(super) fn next_renewal(&self) -> Moment {
        Moment::from_nanos(self.next_renewal.load(Ordering::Acquire))
    }

    /// Sets when the keeper will renew everything.
    pub(crate) fn keeper_renews_at(&self, at: Moment) {
        self.next_renewal.store(at.as_nanos(), Ordering::Release);
    }

    /// Wakes the keeper for a renewal ahead of time.
    pub(crate) fn renew_early(&self, what: EarlyRenewal) {
        self.early_renewal.fetch_max(what as u8, Ordering::AcqRel);
        self.nudge();
    }

    /// What the keeper was asked to renew ahead of time.
    pub(crate) fn take_early_renewal(&self) -> Option<EarlyRenewal> {
        match self.early_renewal.swap(0, Ordering::AcqRel) {
            0 => None,
            1 => Some(EarlyRenewal::Short),
            _ => Some(EarlyRenewal::All),
        }
    }
}
