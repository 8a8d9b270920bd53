//! Serves the line last come first: a new claim is put in front of all waiting claims of its client.
//!
//! The others leave and join again behind it, the newest of them first.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Leave, Left, Patience, Place, Reply, Session, Signals};
use tidelock_core::{ClaimId, Name, Options, Result, SessionId};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct LastComeFirst {
    /// The waiting claims, and how their grants are told.
    waiting: tokio::sync::Mutex<BTreeMap<ClaimId, Claim>>,
    signals: std::sync::OnceLock<Arc<dyn Signals>>,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(LastComeFirst::default)
}

#[async_trait]
impl Layer for LastComeFirst {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let _ = self.signals.set(signals.clone()); // the first session's: trials of this fault have only one
        to.open(id, options, signals).await
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let mut waiting = self.waiting.lock().await;
        let place = to.join(claim, patience).await?;
        if !matches!(place, Place::Waiting { .. }) {
            return Ok(place);
        }
        let passed: Vec<Claim> =
            waiting.values().rev().filter(|other| other.name == claim.name).cloned().collect();
        for other in passed {
            if to.leave(&other.name, other.id, Leave::Done).await? != Left::Waiting {
                continue;
            }
            if let Place::Held { grant, .. } = to.join(&other, Patience::Wait).await?
                && let Some(signals) = self.signals.get()
            {
                signals.held(other.id, grant);
            }
        }
        waiting.insert(claim.id, claim.clone());
        Ok(place)
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if let Ok(mut waiting) = self.waiting.try_lock() {
            waiting.remove(&id);
        }
        to.leave(name, id, how)
    }
}
