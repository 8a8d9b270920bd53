//! Tells each client the size that it asked for, whatever size the line has.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::Result;
use tidelock_core::backend::{Claim, Grant, Layer, Patience, Place, Session};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct TellsTheSizeAskedFor;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| TellsTheSizeAskedFor)
}

#[async_trait]
impl Layer for TellsTheSizeAskedFor {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        Ok(match to.join(claim, patience).await? {
            Place::Held { grant, until } => {
                Place::Held { grant: Grant { capacity: claim.capacity, ..grant }, until }
            }
            other => other,
        })
    }
}
