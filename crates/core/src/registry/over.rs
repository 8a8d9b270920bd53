//! Whether a session has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a session has ended, also for those that keep nothing else of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

impl Over {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
