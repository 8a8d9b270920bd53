//! Claims whose holder may go on believing that it holds although others do: those that were evicted, and those that
//! something befell under which an overlap is declared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Event, What};

/// The claims that do not count any more, as far as a history has been read.
#[derive(Debug)]
pub(super) struct Excused {
    /// What the store calls the claims that were granted.
    granted: BTreeMap<Arc<str>, u64>,
    claims: BTreeSet<u64>,
}

impl Excused {
    /// None yet of those of a history.
    pub(super) fn of(events: &[Event]) -> Self {
        let granted = |event: &Event| match &event.what {
            What::Granted { id, .. } if !id.is_empty() => Some((id.clone(), event.claim)),
            _ => None,
        };
        Self { granted: events.iter().filter_map(granted).collect(), claims: BTreeSet::new() }
    }

    /// Takes an event in, and says which claim stops to count with it. Its grant may come later: somebody is evicted
    /// who has not heard of it yet.
    pub(super) fn see(&mut self, event: &Event) -> Option<u64> {
        let claim = match &event.what {
            What::Overlap if event.claim > 0 => event.claim,
            What::Evicted { id } => *self.granted.get(id)?,
            _ => return None,
        };
        self.claims.insert(claim);
        Some(claim)
    }

    pub(super) fn is(&self, claim: u64) -> bool {
        self.claims.contains(&claim)
    }
}
