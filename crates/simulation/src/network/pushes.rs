//! What the store tells a client unasked.

use std::fmt;
use std::sync::Arc;

use tidelock_core::backend::{Grant, Signals};
use tidelock_core::{ClaimId, Name, SessionId};

use super::Network;

/// What the store tells a client, on its way.
pub(super) struct Pushes {
    pub(super) network: Arc<Network>,
    pub(super) client: usize,
    pub(super) session: SessionId,
    pub(super) to: Arc<dyn Signals>,
}

impl fmt::Debug for Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pushes({})", self.client)
    }
}

impl Signals for Pushes {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.network.record.store_grants(id, grant);
        let to = self.to.clone();
        match self.network.record.name_of(id).filter(|_| self.network.is_hinting) {
            Some(name) => self.network.push(self.client, move || to.look(&name)),
            None => self.network.push(self.client, move || to.held(id, grant)),
        }
    }

    fn stray(&self, id: ClaimId) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.stray(id));
    }

    fn gone(&self, id: ClaimId) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.gone(id));
    }

    fn look(&self, name: &Name) {
        let (to, name) = (self.to.clone(), name.clone());
        self.network.push(self.client, move || to.look(&name));
    }

    fn look_everywhere(&self) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.look_everywhere());
    }

    fn over(&self) {
        self.network.record.store_ends(self.session);
        if !self.network.is_sharded() {
            if self.network.has_session(self.client, self.session) {
                self.network.record.session_expires(self.client);
            }
            let to = self.to.clone();
            self.network.push(self.client, move || to.over());
        }
    }
}
