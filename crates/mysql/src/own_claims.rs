//! What a client knows of its own claims: which joins were never sent, which are void, and which claims wait.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimId, Kind, Name, SessionId};

/// How many busy names are remembered. More are only slower.
const BUSY: usize = 10_000;

#[derive(Debug)]
pub(crate) struct OwnClaims {
    session: SessionId,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Joins that are queued, and were never sent.
    queued: HashSet<u64>,
    /// Claims that must not join any more, and until when that has to be known.
    void: HashMap<u64, Moment>,
    waiting: HashMap<u64, Name>,
    /// Names whose claims were in rows when they were last seen, and their kinds.
    busy: HashMap<Name, Kind>,
    /// Leaves that were not confirmed, and until when the server could still have their claims.
    leaving: HashMap<ClaimId, (Name, Moment)>,
}

impl OwnClaims {
    pub(crate) fn of(session: SessionId) -> Self {
        Self { session, known: Mutex::default() }
    }

    pub(crate) fn queue(&self, number: u64) {
        self.known().queued.insert(number);
    }

    /// Whether this join may be sent: it is not void. From here on it counts as sent.
    pub(crate) fn sends(&self, number: u64) -> bool {
        let mut known = self.known();
        known.queued.remove(&number);
        !known.void.contains_key(&number)
    }

    /// The claim is void from now on. Whether the server need not hear of it, because its join was never sent.
    pub(crate) fn make_void(&self, number: u64, until: Moment) -> bool {
        let mut known = self.known();
        known.void.insert(number, until);
        known.waiting.remove(&number);
        known.queued.remove(&number)
    }

    pub(crate) fn is_void(&self, number: u64) -> bool {
        self.known().void.contains_key(&number)
    }

    pub(crate) fn waits(&self, number: u64, name: &Name) {
        let mut known = self.known();
        if !known.void.contains_key(&number) {
            known.waiting.insert(number, name.clone());
        }
    }

    /// The claim does not wait any more. Whether it did.
    pub(crate) fn waits_no_more(&self, number: u64) -> bool {
        self.known().waiting.remove(&number).is_some()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.known().waiting.is_empty()
    }

    /// The names on which claims wait.
    pub(crate) fn waited(&self) -> Vec<Name> {
        let known = self.known();
        let names: BTreeSet<&Name> = known.waiting.values().collect();
        names.into_iter().cloned().collect()
    }

    /// If the claims of this name were in rows when it was last seen: their kind.
    pub(crate) fn busy(&self, name: &Name) -> Option<Kind> {
        self.known().busy.get(name).copied()
    }

    pub(crate) fn set_busy(&self, name: &Name, busy: Option<Kind>) {
        let mut known = self.known();
        match busy {
            None => {
                known.busy.remove(name);
            }
            Some(kind) if known.busy.len() < BUSY || known.busy.contains_key(name) => {
                known.busy.insert(name.clone(), kind);
            }
            Some(_) => {}
        }
    }

    pub(crate) fn leaves(&self, id: ClaimId, name: &Name, surely_over: Moment) {
        self.known().leaving.insert(id, (name.clone(), surely_over));
    }

    pub(crate) fn has_left(&self, id: ClaimId) {
        let mut known = self.known();
        known.leaving.remove(&id);
        if id.session == self.session {
            known.waiting.remove(&id.number);
        }
    }

    pub(crate) fn is_leaving(&self, id: ClaimId) -> bool {
        self.known().leaving.contains_key(&id)
    }

    /// The leaves without a confirmation.
    pub(crate) fn unconfirmed(&self) -> Vec<(ClaimId, Name)> {
        self.known().leaving.iter().map(|(id, (name, _))| (*id, name.clone())).collect()
    }

    /// Forgets what is over by now.
    pub(crate) fn forget(&self, now: Moment) {
        let mut known = self.known();
        known.void.retain(|_, until| *until > now);
        known.leaving.retain(|_, (_, surely_over)| *surely_over > now);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
