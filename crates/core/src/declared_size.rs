//! The size that the claims of one handle of a semaphore declare.
//!
//! It is the number of permits that the handle was made with, or that of its last resize. The last resize is the one
//! that was sent last, in whatever order they are answered. The size of the line, while a claim is in it, may differ.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Weight;

#[derive(Debug)]
pub(crate) struct DeclaredSize {
    sent: AtomicU64,
    /// The number of the last resize in the upper 32 bits, the capacity in the lower ones.
    last: AtomicU64,
}

impl DeclaredSize {
    pub(crate) fn new(capacity: Weight) -> Self {
        Self { sent: AtomicU64::new(0), last: AtomicU64::new(capacity.get().into()) }
    }

    pub(crate) fn get(&self) -> Weight {
        let capacity = self.last.load(Ordering::Acquire) & u64::from(u32::MAX);
        u32::try_from(capacity).ok().and_then(Weight::new).unwrap_or(Weight::ONE)
    }

    /// The number of a resize that knows the size it changes and is about to be sent. The store accepts it only if
    /// the size has not changed since, so the numbers are in the order in which the resizes take effect.
    pub(crate) fn next_resize(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The resize with this number has succeeded.
    pub(crate) fn resized(&self, number: u64, to: Weight) {
        self.last.fetch_max(number << 32 | u64::from(to.get()), Ordering::AcqRel);
    }
}
