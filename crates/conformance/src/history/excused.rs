//! Claims whose holder may go on believing that it holds although others hold: evicted claims, and claims that
//! suffered a mishap for which the subject declares an overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Event, EventKind};

/// The excused claims in the history so far.
#[derive(Debug)]
pub(super) struct Excused {
    /// The granted claims, by the store's ids.
    granted: BTreeMap<Arc<str>, u64>,
    claims: BTreeSet<u64>,
}

impl Excused {
    /// No excused claims yet, for this history.
    pub(super) fn of(events: &[Event]) -> Self {
        let granted = |event: &Event| match &event.what {
            EventKind::Granted { id, .. } if !id.is_empty() => Some((id.clone(), event.claim)),
            _ => None,
        };
        Self { granted: events.iter().filter_map(granted).collect(), claims: BTreeSet::new() }
    }

    /// Adds an event, and returns the claim that is excused from then on. Its grant may come later: a client may be
    /// evicted before it learns of its grant.
    pub(super) fn see(&mut self, event: &Event) -> Option<u64> {
        let claim = match &event.what {
            EventKind::Overlap if event.claim > 0 => event.claim,
            EventKind::Evicted { id } => *self.granted.get(id)?,
            _ => return None,
        };
        self.claims.insert(claim);
        Some(claim)
    }

    pub(super) fn is(&self, claim: u64) -> bool {
        self.claims.contains(&claim)
    }
}
