//! Grants twice, once in a hundred: a claim that must wait is told that it holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Grant, Layer, Leave, Left, Moment, Patience, Place, Reply, Session};
use tidelock_core::{ClaimId, Name, Result, Token};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct GrantsTwice {
    waits: AtomicU64,
    newest: AtomicU64,
    invented: Mutex<BTreeSet<ClaimId>>,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(GrantsTwice::default())
}

#[async_trait]
impl Layer for GrantsTwice {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let place = to.join(claim, patience).await?;
        match place {
            Place::Held { grant, .. } => {
                self.newest.fetch_max(grant.token.store_order(), Ordering::Relaxed);
            }
            Place::Waiting { until, .. } if self.waits.fetch_add(1, Ordering::Relaxed) % 100 == 50 => {
                self.invented.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id);
                let order = self.newest.load(Ordering::Relaxed) + 1;
                return Ok(held(claim, order, until));
            }
            _ => {}
        }
        Ok(place)
    }

    /// A claim that was never granted leaves like one that was.
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let was_invented = self.invented.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let reply = to.leave(name, id, how);
        Box::pin(async move {
            let left = reply.await?;
            Ok(if was_invented { Left::Held } else { left })
        })
    }
}

/// An invented grant.
pub(super) fn held(claim: &Claim, order: u64, until: Moment) -> Place {
    let token = Token::from_order(order).expect("a small order");
    Place::Held { grant: Grant { token, capacity: claim.capacity }, until }
}
