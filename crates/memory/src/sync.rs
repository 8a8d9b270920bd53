//! The types that loom must see, one lock and one number: std's, or loom's under `cfg(tidelock_loom)`.

use std::ops::DerefMut;
use std::sync::PoisonError;

#[cfg(tidelock_loom)]
use loom::sync as imp;
#[cfg(not(tidelock_loom))]
use std::sync as imp;

pub(crate) use imp::atomic::AtomicU64;

/// A mutex without poisoning: a panic in one test's client must not hide what another one sees.
#[derive(Debug)]
pub(crate) struct Cell<T>(imp::Mutex<T>);

impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
