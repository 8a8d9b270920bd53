//! Lets another kind in: a client that asks for a lock in use as another kind is told that it holds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Leave, Left, Patience, Place, Reply, Session, boot_clock};
use tidelock_core::{ClaimId, ErrorKind, Name, Result};

use super::grants_twice::held;
use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct LetsAnotherKindIn {
    invented: Mutex<BTreeSet<ClaimId>>,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(LetsAnotherKindIn::default())
}

#[async_trait]
impl Layer for LetsAnotherKindIn {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        match to.join(claim, patience).await {
            Err(error) if error.kind() == ErrorKind::KindMismatch => {
                self.invented.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id);
                let newest = to.line(&claim.name).await?.holders().filter_map(|holder| holder.token).max();
                let order = newest.map_or(1, tidelock_core::Token::store_order) + 1;
                Ok(held(claim, order, boot_clock().now() + to.ttl()))
            }
            place => place,
        }
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
