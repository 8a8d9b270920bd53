//! Grants on a lost reply: it takes a missing answer for a grant.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Moment, Patience, Place, Session};
use tidelock_core::{ErrorKind, Result};

use super::invented::held;
use crate::subjects::Bend;
use crate::{ManualTime, Time};

#[derive(Debug)]
struct GrantsOnALostReply(ManualTime);

pub(super) fn bend(time: &ManualTime) -> Bend {
    let time = time.clone();
    super::layer::each(move || GrantsOnALostReply(time.clone()))
}

#[async_trait]
impl Layer for GrantsOnALostReply {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        match to.join(claim, patience).await {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let until: Moment = self.0.now() + to.ttl();
                Ok(held(claim, 1 << 30, until))
            }
            answered => answered,
        }
    }
}
