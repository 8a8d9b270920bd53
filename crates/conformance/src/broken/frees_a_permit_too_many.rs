//! Frees a permit too many on expiry: a claim that vanished from a semaphore's line gives back one permit more than it
//! had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Leave, Left, Patience, Place, Reply, Session, Sight};
use tidelock_core::{ClaimId, Kind, Name, Result, Weight};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct FreesAPermitTooMany {
    standing: Mutex<BTreeMap<ClaimId, Name>>,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(FreesAPermitTooMany::default())
}

impl FreesAPermitTooMany {
    fn standing(&self) -> MutexGuard<'_, BTreeMap<ClaimId, Name>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bury(&self, to: &Arc<dyn Session>, name: &Name) -> Result<()> {
        let line = to.line(name).await?;
        let is_gone = |id: &ClaimId| !line.claims.iter().any(|claim| claim.id == *id);
        let gone: Vec<ClaimId> = {
            let standing = self.standing();
            let of_name = standing.iter().filter(|(_, of)| *of == name);
            of_name.map(|(id, _)| *id).filter(is_gone).collect()
        };
        for id in gone {
            self.standing().remove(&id);
            if let Some(size) = to.line(name).await?.capacity
                && let Some(more) = Weight::new(size.get() + 1)
            {
                to.resize(name, size, more).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Layer for FreesAPermitTooMany {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let place = to.join(claim, patience).await?;
        if claim.kind == Kind::Semaphore && place != Place::Refused {
            self.standing().insert(claim.id, claim.name.clone());
        }
        Ok(place)
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.bury(to, name).await?;
        to.look(name, waiting).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let reply = to.leave(name, id, how);
        Box::pin(async move {
            let left = reply.await?; // a client that tried to leave, and then died, has vanished
            self.standing().remove(&id);
            Ok(left)
        })
    }
}
