//! Counts the deadline from the reply: a slow network makes every lease look longer than it is.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Patience, Place, Renewal, Session, Shard};
use tidelock_core::{ClaimId, Name, Result};

use crate::subjects::Bend;
use crate::{ManualTime, Time};

#[derive(Debug)]
struct CountsFromTheReply(ManualTime);

pub(super) fn bend(time: &ManualTime) -> Bend {
    let time = time.clone();
    super::layer::each(move || CountsFromTheReply(time.clone()))
}

#[async_trait]
impl Layer for CountsFromTheReply {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let place = to.join(claim, patience).await?;
        let until = self.0.now() + to.ttl();
        Ok(match place {
            Place::Held { grant, .. } => Place::Held { grant, until },
            Place::Waiting { look_in, .. } => Place::Waiting { until, look_in },
            other => other,
        })
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let renewal = to.renew(shard, standing).await?;
        Ok(Renewal { until: self.0.now() + to.ttl(), ..renewal })
    }
}
