//! Lets a reader pass a waiting writer: a reader is let in while others read.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Patience, Place, Session};
use tidelock_core::{Kind, Result, Weight};

use super::invented::held;
use crate::subjects::Bend;
use crate::{ManualTime, Time};

#[derive(Debug)]
struct ReadersPass(ManualTime);

pub(super) fn bend(time: &ManualTime) -> Bend {
    let time = time.clone();
    super::layer::each(move || ReadersPass(time.clone()))
}

#[async_trait]
impl Layer for ReadersPass {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let place = to.join(claim, patience).await?;
        let is_reader = claim.kind == Kind::RwLock && claim.weight == Weight::ONE;
        if is_reader && matches!(place, Place::Waiting { .. }) {
            let line = to.line(&claim.name).await?;
            if line.holders().all(|holder| holder.weight == Weight::ONE) {
                let newest = line.holders().filter_map(|holder| holder.token).max();
                let order = newest.map_or(1, tidelock_core::Token::store_order);
                return Ok(held(claim, order, self.0.now() + to.ttl()));
            }
        }
        Ok(place)
    }
}
