//! Gives strays back without being asked: a renewal treats claims that core did not name as forgotten. These
//! include claims that were joined while the renewal was under way.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Clock, Layer, Leave, Renewal, Session, Shard, Sleep};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct GivesStraysBack(Arc<dyn Clock>);

pub(super) fn bend(time: &ManualTime) -> Bend {
    let clock = time.clock();
    super::layer::each(move || GivesStraysBack(clock.clone()))
}

#[async_trait]
impl Layer for GivesStraysBack {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        Sleep::until(&self.0, self.0.now() + to.ttl() / 10).await; // the renewal is on its way
        let renewal = to.renew(shard, standing).await?;
        for (name, id) in &renewal.strays {
            to.leave(name, *id, Leave::Done).await?;
        }
        Ok(Renewal { strays: Vec::new(), ..renewal })
    }
}
