//! A witness records what core is told of claims. It is a layer in front of everything else.
//!
//! A guard does not show everything that its grant said, nor when its wait began. The witness knows both, by the
//! claim's id: the size of the line at the grant, and since when the claim has surely been in the store's line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Grant, Layer, Moment, Patience, Place, Session, Sight, Signals, boot_clock,
};
use tidelock_core::{ClaimId, Name, Result};

use crate::signal::{Signal, passing};

/// What was told of claims, by their ids.
#[derive(Debug, Default)]
pub struct Witness(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    sizes: BTreeMap<ClaimId, u32>,
    stood: BTreeMap<ClaimId, Moment>,
}

impl Witness {
    /// The capacity that a claim's grant told, and since when the claim had waited. Once: a hold that is passed on is
    /// granted without the store.
    pub(crate) fn told(&self, id: ClaimId) -> (Option<u32>, Option<Moment>) {
        let mut heard = self.heard();
        (heard.sizes.remove(&id), heard.stood.remove(&id))
    }

    fn held(&self, id: ClaimId, grant: Grant) {
        self.heard().sizes.insert(id, grant.capacity.get());
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Layer for Witness {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        passing(to, move |signal| {
            if let Signal::Held(id, grant) = signal {
                self.held(id, grant);
            }
            Some(signal)
        })
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let place = to.join(claim, patience).await?;
        match place {
            Place::Held { grant, .. } => self.held(claim.id, grant),
            Place::Waiting { .. } => {
                self.heard().stood.entry(claim.id).or_insert_with(|| boot_clock().now());
            }
            _ => {}
        }
        Ok(place)
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let sight = to.look(name, waiting).await?;
        sight.held.iter().for_each(|(id, grant)| self.held(*id, *grant));
        Ok(sight)
    }
}
