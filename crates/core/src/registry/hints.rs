//! How many hints have come for each line.
//!
//! A hint may come before the answer to its join. A claim is entered with the number of hints so far; if it begins to
//! wait at another number, it missed one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::scatter::scatter;
use crate::Name;

/// Several lines share a counter: a hint for one of them costs the others a look.
const COUNTERS: usize = 64;

#[derive(Debug)]
pub(super) struct Hints([AtomicU32; COUNTERS]);

impl Hints {
    pub(super) fn new() -> Self {
        Self([const { AtomicU32::new(0) }; COUNTERS])
    }

    /// The number of hints for this line so far.
    pub(super) fn number(&self, name: &Name) -> u32 {
        self.counter(name).load(Ordering::Acquire)
    }

    pub(super) fn add(&self, name: &Name) {
        self.counter(name).fetch_add(1, Ordering::AcqRel);
    }

    /// A hint for every line.
    pub(super) fn add_everywhere(&self) {
        for counter in &self.0 {
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn counter(&self, name: &Name) -> &AtomicU32 {
        // The names of one program mostly differ at their ends.
        let tail = name.as_bytes().iter().rev().take(8).fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        &self.0[(scatter(tail) % COUNTERS as u64) as usize]
    }
}
