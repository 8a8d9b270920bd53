//! Which claims conflict: each claim's weight, and the most that its line may have had room for while it was asked.
//!
//! A line has the capacity its first comer said, or a resize made it; which of them the store went by at the moment
//! of a grant is not known from outside. The most that it can have been, between the asking and the grant, is; and
//! only what exceeds that is an alarm.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Event, What};

/// One claim as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) name: Arc<str>,
    pub(super) who: Arc<str>,
    pub(super) weight: u64,
    /// The position of its asking.
    pub(super) asked: usize,
    own_capacity: u64,
}

/// Every claim so far, and what was done to capacities.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<u64, Claim>,
    sizes: BTreeMap<Arc<str>, Sizes>,
}

/// The resizes of one line.
#[derive(Debug, Default)]
struct Sizes {
    /// What it may be now.
    possible: Vec<u64>,
    /// Positions and sizes of resizes, of which no later one was greater: the first at or after a position is the
    /// greatest since.
    greatest: Vec<(usize, u64)>,
}

impl Claims {
    /// Takes an event in; to be called before it is judged.
    pub(super) fn see(&mut self, position: usize, event: &Event) {
        match event.what {
            What::Asked { weight, capacity } => {
                let possible =
                    self.sizes.get(&event.name).and_then(|sizes| sizes.possible.iter().max().copied());
                let claim = Claim {
                    name: event.name.clone(),
                    who: event.who.clone(),
                    weight: u64::from(weight),
                    asked: position,
                    own_capacity: u64::from(capacity).max(possible.unwrap_or(0)),
                };
                self.claims.insert(event.claim, claim);
            }
            What::Resizing { to } => {
                let sizes = self.sizes.entry(event.name.clone()).or_default();
                sizes.possible.push(u64::from(to));
                while sizes.greatest.last().is_some_and(|(_, size)| *size <= u64::from(to)) {
                    sizes.greatest.pop();
                }
                sizes.greatest.push((position, u64::from(to)));
            }
            What::Resized { to } => {
                self.sizes.entry(event.name.clone()).or_default().possible = vec![u64::from(to)];
            }
            _ => {}
        }
    }

    pub(super) fn get(&self, claim: u64) -> Option<&Claim> {
        self.claims.get(&claim)
    }

    /// The most that the line may have had room for since the claim was asked.
    pub(super) fn capacity(&self, claim: &Claim) -> u64 {
        let greatest = self.sizes.get(&claim.name).and_then(|sizes| {
            let first = sizes.greatest.partition_point(|(position, _)| *position < claim.asked);
            sizes.greatest.get(first).map(|(_, size)| *size)
        });
        claim.own_capacity.max(greatest.unwrap_or(0))
    }
}
