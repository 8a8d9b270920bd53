//! The types that loom has to track: a lock, a number and a flag, from std, or from loom under `cfg(tidelock_loom)`.

#[cfg(tidelock_loom)]
use loom::sync as imp;
#[cfg(not(tidelock_loom))]
use std::sync as imp;

pub(crate) use imp::MutexGuard as Locked;
pub(crate) use imp::atomic::{AtomicBool, AtomicU64};

/// A mutex without poisoning: nothing here panics while it holds one, and a user's panic must not spread.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
