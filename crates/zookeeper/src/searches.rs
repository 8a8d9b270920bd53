//! The searches for claims that are under way, and their results.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_core::{ClaimId, Name};
use tokio::sync::oneshot;
use zookeeper_client::Error as Said;

use crate::listing::Standing;

/// The result of a search: the line, as it was after every earlier request.
#[derive(Default)]
pub(crate) struct Found {
    standing: Vec<Standing>,
    places: HashMap<ClaimId, usize>,
    /// The claims in front that have their turn.
    held: HashSet<ClaimId>,
}

impl Found {
    pub(crate) fn new(standing: Vec<Standing>, held: HashSet<ClaimId>) -> Self {
        let places = standing.iter().enumerate().map(|(place, standing)| (standing.id, place)).collect();
        Self { standing, places, held }
    }

    pub(crate) fn find(&self, id: ClaimId) -> Option<&Standing> {
        self.places.get(&id).map(|place| &self.standing[*place])
    }

    pub(crate) fn is_held(&self, id: ClaimId) -> bool {
        self.held.contains(&id)
    }
}

/// A claim that is looked for, and the channel for the result.
pub(crate) type Wanted = (ClaimId, oneshot::Sender<Result<Arc<Found>, Said>>);

/// The names that are being searched, and the claims to look for next there.
#[derive(Default)]
pub(crate) struct Searches(Mutex<HashMap<Name, Vec<Wanted>>>);

impl Searches {
    /// Returns whether a search of that name has to begin.
    pub(crate) fn enter(&self, name: &Name, wanted: Wanted) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !names.contains_key(name);
        names.entry(name.clone()).or_default().push(wanted);
        is_new
    }

    pub(crate) fn end(&self, name: &Name) {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        drop(ended); // the waiting tasks are woken after the lock is released
    }

    /// The claims to look for now. Empty: the search of that name is over.
    pub(crate) fn next(&self, name: &Name) -> Vec<Wanted> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = names.get_mut(name).map(std::mem::take).unwrap_or_default();
        if next.is_empty() {
            names.remove(name);
        }
        next
    }
}

impl fmt::Debug for Searches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Searches")
    }
}
