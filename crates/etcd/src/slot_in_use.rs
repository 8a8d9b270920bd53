//! A claim's slot, for as long as core knows the claim.

use std::sync::{Arc, Weak};

use tidelock_core::Name;
use tidelock_core::backend::Numbered;

use crate::open_session::OpenSession;

/// Gives the slot back when it is dropped.
pub(crate) struct SlotInUse {
    session: Weak<OpenSession>,
    name: Name,
    slot: u64,
    number: u64,
}

impl SlotInUse {
    /// Takes a slot for a claim in this line.
    pub(crate) fn take(session: &Arc<OpenSession>, name: &Name, fresh: u64) -> Numbered {
        let (slot, number) = session.own_claims.take_slot(name, fresh);
        let in_use = Self { session: Arc::downgrade(session), name: name.clone(), slot, number };
        Numbered { number, kept: Some(Box::new(in_use)) }
    }
}

impl Drop for SlotInUse {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.own_claims.give_back_slot(&self.name, self.slot, self.number);
        }
    }
}
