//! Reports a loss on the first failed renewal: a moment without the server costs every lock.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Renewal, Session, Shard};
use tidelock_core::{ClaimId, Name, Result};

use crate::subjects::Bend;
use crate::{ManualTime, Time};

#[derive(Debug)]
struct LostOnTheFirstFailure(ManualTime);

pub(super) fn bend(time: &ManualTime) -> Bend {
    let time = time.clone();
    super::layer::each(move || LostOnTheFirstFailure(time.clone()))
}

#[async_trait]
impl Layer for LostOnTheFirstFailure {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        match to.renew(shard, standing).await {
            Ok(renewal) => Ok(renewal),
            Err(_) => {
                let gone = standing.iter().flat_map(|(_, ids)| ids).copied().collect();
                Ok(Renewal {
                    until: self.0.now() + to.ttl(),
                    gone,
                    unsure: Vec::new(),
                    missed: Vec::new(),
                    waiting: Vec::new(),
                    strays: Vec::new(),
                })
            }
        }
    }
}
