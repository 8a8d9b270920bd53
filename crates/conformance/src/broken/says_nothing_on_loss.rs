//! Says nothing on loss: the client believes for ever that it holds, whatever the store says.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Layer, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard, Signals,
};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::signal::{Signal, passing};
use crate::subjects::Bend;

#[derive(Debug)]
struct SaysNothingOnLoss;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| SaysNothingOnLoss)
}

#[async_trait]
impl Layer for SaysNothingOnLoss {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        passing(to, |signal| (!matches!(signal, Signal::Gone(_) | Signal::Over)).then_some(signal))
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        Ok(match to.join(claim, patience).await? {
            Place::Held { grant, .. } => Place::Held { grant, until: Moment::NEVER },
            other => other,
        })
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let reply = to.leave(name, id, how);
        Box::pin(async move { Ok(reply.await.unwrap_or(Left::Held)) })
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let _ = to.renew(shard, standing).await; // the answer is ignored
        Ok(Renewal {
            until: Moment::NEVER,
            gone: Vec::new(),
            unsure: Vec::new(),
            missed: Vec::new(),
            waiting: Vec::new(),
            strays: Vec::new(),
        })
    }
}
