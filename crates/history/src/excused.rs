//! Claims whose holder may go on believing that it holds although others hold: evicted claims, and claims that
//! suffered a mishap for which the subject declares an overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Event, EventKind};

/// The excused claims in the history so far.
#[derive(Debug)]
pub(crate) struct Excused {
    /// The granted claims, by the store's ids. A client may pass on what the store granted once.
    granted: BTreeMap<Arc<str>, Vec<u64>>,
    claims: BTreeSet<u64>,
}

impl Excused {
    /// No excused claims yet, for this history.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut granted: BTreeMap<Arc<str>, Vec<u64>> = BTreeMap::new();
        for event in events {
            if let EventKind::Granted { id, .. } = &event.what
                && !id.is_empty()
            {
                granted.entry(id.clone()).or_default().push(event.claim);
            }
        }
        Self { granted, claims: BTreeSet::new() }
    }

    /// Adds an event, and returns the claims that are excused from then on. Their grants may come later: a client may be
    /// evicted before it learns of its grant.
    pub(crate) fn see(&mut self, event: &Event) -> Vec<u64> {
        let claims = match &event.what {
            EventKind::Overlap if event.claim > 0 => vec![event.claim],
            EventKind::Evicted { id } => self.granted.get(id).cloned().unwrap_or_default(),
            _ => return Vec::new(),
        };
        self.claims.extend(&claims);
        claims
    }

    pub(crate) fn is(&self, claim: u64) -> bool {
        self.claims.contains(&claim)
    }
}
