//! Lets another kind in: a client that asks for a lock in use as another kind is told that it holds.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Leave, Left, Patience, Place, Reply, Session, boot_clock};
use tidelock_core::{ClaimId, ErrorKind, Name, Result};

use super::invented::{Invented, held};
use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct LetsAnotherKindIn {
    invented: Invented,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(LetsAnotherKindIn::default())
}

#[async_trait]
impl Layer for LetsAnotherKindIn {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        match to.join(claim, patience).await {
            Err(error) if error.kind() == ErrorKind::KindMismatch => {
                self.invented.insert(claim.id);
                let newest = to.line(&claim.name).await?.holders().filter_map(|holder| holder.token).max();
                let order = newest.map_or(1, tidelock_core::Token::store_order) + 1;
                Ok(held(claim, order, boot_clock().now() + to.ttl()))
            }
            place => place,
        }
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.invented.leave(to, name, id, how)
    }
}
