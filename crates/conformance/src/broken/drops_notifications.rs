//! Drops notifications and never looks again: a waiter is told nothing and sees nothing.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Session, Sight, Signals};
use tidelock_core::{ClaimId, Name, Result};

use crate::ManualTime;
use crate::signal::{Signal, passing};
use crate::subjects::Bend;

#[derive(Debug)]
struct DropsNotifications;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| DropsNotifications)
}

#[async_trait]
impl Layer for DropsNotifications {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        // No signal may give a waiter its turn.
        passing(to, |signal| matches!(signal, Signal::Gone(_) | Signal::Over).then_some(signal))
    }

    async fn look(&self, to: &Arc<dyn Session>, _: &Name, _: &[ClaimId]) -> Result<Sight> {
        Ok(Sight { held: Vec::new(), gone: Vec::new(), look_in: to.ttl() })
    }
}
