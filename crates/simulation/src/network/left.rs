//! What is left in the store when everybody has gone.

use std::sync::Arc;

use tidelock_core::backend::{Backend, Grant, Signals};
use tidelock_core::{ClaimId, Name, Options, SessionId};

use super::Network;
use super::answer::at_once;

impl Network {
    /// What the store still has: names, and the number of sessions.
    pub(crate) fn left(&self) -> (Vec<String>, usize) {
        let sessions = self.stores.iter().map(|store| store.faults().lose_sessions()).sum();
        let mut names = Vec::new();
        for store in &self.stores {
            let id = SessionId::from_bits(1);
            let Ok(session) = at_once(store.open(id, &Options::new(), Arc::new(Deaf))) else { continue };
            names
                .extend(at_once(session.names("", None)).unwrap_or_default().iter().map(ToString::to_string));
            let _ = at_once(session.close());
        }
        (names, sessions)
    }
}

/// Nobody listens.
#[derive(Debug)]
struct Deaf;

impl Signals for Deaf {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}
