//! Drops notifications and never looks again: a waiter is told nothing and sees nothing.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Grant, Layer, Session, Sight, Signals};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct DropsNotifications;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| DropsNotifications)
}

#[async_trait]
impl Layer for DropsNotifications {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        Arc::new(OnlyLoss(to))
    }

    async fn look(&self, to: &Arc<dyn Session>, _: &Name, _: &[ClaimId]) -> Result<Sight> {
        Ok(Sight { held: Vec::new(), gone: Vec::new(), look_in: to.ttl() })
    }
}

/// Drops every signal that would give a waiter its turn.
#[derive(Debug)]
struct OnlyLoss(Arc<dyn Signals>);

impl Signals for OnlyLoss {
    fn held(&self, _: ClaimId, _: Grant) {}

    fn stray(&self, _: ClaimId) {}
    fn gone(&self, id: ClaimId) {
        self.0.gone(id);
    }

    fn look(&self, _: &Name) {}

    fn look_everywhere(&self) {}

    fn over(&self) {
        self.0.over();
    }
}
