//! What the store knows about one session: until when it lives, where its claims stand, and which joins are void.
//!
//! A void leave is remembered for one ttl: if its join is still under way, it arrives within that time or not at all.
//! Older ones are forgotten at the next void leave or renewal.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Options;
use tidelock_core::backend::{Moment, Signals};

use crate::small_map::SmallMap;

#[derive(Debug)]
pub(crate) struct Lease {
    /// The index of its namespace.
    pub(crate) space: usize,
    pub(crate) label: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) until: Moment,
    pub(crate) signals: Arc<dyn Signals>,
    /// Where each of its claims stands, by its number.
    pub(crate) claims: SmallMap<u64, Spot>,
    void: BTreeSet<u64>,
    /// The same numbers, with the time when each may be forgotten.
    void_until: VecDeque<(Moment, u64)>,
}

/// A place in a line: the line's index, and which number the claim got there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) line: usize,
    pub(crate) order: u64,
}

impl Lease {
    pub(crate) fn new(space: usize, options: &Options, signals: Arc<dyn Signals>) -> Self {
        Self {
            space,
            label: options.label.clone(),
            ttl: options.ttl,
            until: Moment::START,
            signals,
            claims: SmallMap::new(),
            void: BTreeSet::new(),
            void_until: VecDeque::new(),
        }
    }

    /// From now on a join with this number is void.
    pub(crate) fn make_void(&mut self, number: u64, now: Moment) {
        self.forget_void(now);
        if self.void.insert(number) {
            self.void_until.push_back((now + self.ttl, number));
        }
    }

    pub(crate) fn is_void(&self, number: u64) -> bool {
        self.void.contains(&number)
    }

    /// Forgets the joins that can no longer arrive.
    pub(crate) fn forget_void(&mut self, now: Moment) {
        while let Some((_, number)) = self.void_until.front().filter(|(until, _)| *until <= now) {
            self.void.remove(number);
            self.void_until.pop_front();
        }
    }
}
