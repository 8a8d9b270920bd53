//! Grants twice, once in a hundred: a claim that must wait is told that it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Leave, Left, Patience, Place, Reply, Session};
use tidelock_core::{ClaimId, Name, Result};

use super::invented::{Invented, held};
use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct GrantsTwice {
    waits: AtomicU64,
    newest: AtomicU64,
    invented: Invented,
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
                self.invented.insert(claim.id);
                let order = self.newest.load(Ordering::Relaxed) + 1;
                return Ok(held(claim, order, until));
            }
            _ => {}
        }
        Ok(place)
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.invented.leave(to, name, id, how)
    }
}
