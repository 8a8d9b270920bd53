//! Stretches a turn: when the first holder of a mutex has left, its client's next claim gets the same grant of the store once
//! more, as if the hold had been passed on. So a client that may not pass a hold on any more goes on, past all others.
//!
//! The claim in the store leaves when the last of these does.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Grant, Layer, Leave, Left, Moment, Patience, Place, Reply, Session};
use tidelock_core::{ClaimId, Kind, Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct StretchesATurn(Mutex<BTreeMap<Name, Turn>>);

/// The claim that the store has granted, and the last one that was given its grant.
#[derive(Debug)]
struct Turn {
    owner: ClaimId,
    last: ClaimId,
    /// Whether it was to leave already.
    has_left: bool,
    grant: Grant,
    until: Moment,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(StretchesATurn::default)
}

impl StretchesATurn {
    fn turns(&self) -> MutexGuard<'_, BTreeMap<Name, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same grant once more, if the client has a turn that has not been stretched yet.
    fn stretched(&self, claim: &Claim) -> Option<Place> {
        let mut turns = self.turns();
        let turn = turns.get_mut(&claim.name).filter(|turn| turn.last == turn.owner)?;
        turn.grant.token = turn.grant.token.next_pass()?;
        turn.last = claim.id;
        Some(Place::Held { grant: turn.grant, until: turn.until })
    }
}

#[async_trait]
impl Layer for StretchesATurn {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        if let Some(place) = self.stretched(claim) {
            return Ok(place);
        }
        let place = to.join(claim, patience).await?;
        if let Place::Held { grant, until } = place
            && claim.kind == Kind::Mutex
        {
            let turn = Turn { owner: claim.id, last: claim.id, has_left: false, grant, until };
            self.turns().insert(claim.name.clone(), turn);
        }
        Ok(place)
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let mut turns = self.turns();
        match turns.get_mut(name) {
            Some(turn) if turn.owner == id && !turn.has_left => {
                turn.has_left = true;
                Box::pin(ready(Ok(Left::Held)))
            }
            // Nobody came: it is found to be still there.
            Some(turn) if [turn.owner, turn.last].contains(&id) => {
                let owner = turn.owner;
                turns.remove(name);
                to.leave(name, owner, how)
            }
            _ => to.leave(name, id, how),
        }
    }
}
