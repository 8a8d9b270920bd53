//! Leaves behind a claim that was cancelled while its reply was under way: "nobody knows it, so it cannot be there".

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Leave, Left, Renewal, Reply, Session, Shard};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct LeavesACancelledClaim;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| LeavesACancelledClaim)
}

#[async_trait]
impl Layer for LeavesACancelledClaim {
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        match how {
            Leave::Void => Box::pin(ready(Ok(Left::Absent))),
            Leave::Done => to.leave(name, id, how),
        }
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
