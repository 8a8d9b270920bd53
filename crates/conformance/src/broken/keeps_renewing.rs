//! Keeps renewing after a release: a leave is confirmed and forgotten, and the session's renewals keep the claim.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Leave, Left, Renewal, Reply, Session, Shard};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct KeepsRenewing;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| KeepsRenewing)
}

#[async_trait]
impl Layer for KeepsRenewing {
    fn leave(self: Arc<Self>, _: &Arc<dyn Session>, _: &Name, _: ClaimId, _: Leave) -> Reply<Left> {
        Box::pin(ready(Ok(Left::Held)))
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let renewal = to.renew(shard, standing).await?;
        Ok(Renewal { strays: Vec::new(), ..renewal })
    }
}
