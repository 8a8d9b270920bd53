//! A store that keeps nothing of a session without claims.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Moment, Renewal, Session, Shard};
use tidelock_core::{ClaimId, Name};

/// A store that keeps nothing of a session without claims: a renewal without claims sends nothing.
#[derive(Debug)]
pub(crate) struct KeepsOnlyClaims;

#[async_trait]
impl Layer for KeepsOnlyClaims {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> tidelock_core::Result<Renewal> {
        match standing {
            [] => Ok(Renewal {
                until: Moment::START,
                gone: vec![],
                unsure: vec![],
                missed: vec![],
                waiting: vec![],
                strays: vec![],
            }),
            standing => to.renew(shard, standing).await,
        }
    }
}
