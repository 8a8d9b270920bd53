//! Blocks every name while one stalls: one request at a time, whatever it is about.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Patience, Place, Session, Sight};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct BlocksEveryName(tokio::sync::Mutex<()>);

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(BlocksEveryName::default)
}

#[async_trait]
impl Layer for BlocksEveryName {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let _alone = self.0.lock().await;
        to.join(claim, patience).await
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let _alone = self.0.lock().await;
        to.look(name, waiting).await
    }
}
