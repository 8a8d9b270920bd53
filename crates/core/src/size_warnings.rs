//! The warnings that a semaphore has another size than a client asked for: one for each semaphore and pair of sizes,
//! however many handles and requests there are.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::shield::unharmed;
use crate::{Name, Weight};

/// How many are remembered. With more of them the first ones are given again.
const MOST: usize = 1_000;

/// What one client was warned of: the semaphore, the size that was asked for, and the one in use.
#[derive(Debug, Default)]
pub(crate) struct SizeWarnings(Mutex<HashSet<(Name, Weight, Weight)>>);

impl SizeWarnings {
    /// A semaphore that was opened with `asked` permits has this size. Another size is worth a warning, but must be no
    /// outage.
    pub(crate) fn compare(&self, name: &Name, asked: Weight, size: Weight) {
        if asked != size && self.is_news(name, asked, size) {
            unharmed(
                || tracing::warn!(lock.name = %name, %asked, %size, "semaphore {name:?} already exists with {size} permits; this client asked for {asked} and uses {size}"),
            );
        }
    }

    fn is_news(&self, name: &Name, asked: Weight, size: Weight) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((name.clone(), asked, size))
    }
}
