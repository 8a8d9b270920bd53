//! Grants that no store has made.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_core::backend::{Claim, Grant, Leave, Left, Moment, Place, Reply, Session};
use tidelock_core::{ClaimId, Name, Token};

/// An invented grant.
pub(super) fn held(claim: &Claim, order: u64, until: Moment) -> Place {
    let token = Token::from_order(order).expect("a small order");
    Place::Held { grant: Grant { token, capacity: claim.capacity }, until }
}

/// The claims with such a grant. They leave as if they had been granted.
#[derive(Debug, Default)]
pub(super) struct Invented(Mutex<BTreeSet<ClaimId>>);

impl Invented {
    pub(super) fn insert(&self, id: ClaimId) {
        self.ids().insert(id);
    }

    pub(super) fn leave(&self, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let was_invented = self.ids().remove(&id);
        let reply = to.leave(name, id, how);
        Box::pin(async move {
            let left = reply.await?;
            Ok(if was_invented { Left::Held } else { left })
        })
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<ClaimId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
