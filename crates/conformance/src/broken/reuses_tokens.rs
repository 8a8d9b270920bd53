//! Reuses a token after an emptied line: its counter belongs to the line, and is forgotten with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_core::backend::Claim;
use tidelock_core::{ClaimId, Name, Token};

use super::retold::{Retold, Teller};
use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct ReusesTokens(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    of: BTreeMap<ClaimId, Name>,
    standing: BTreeMap<Name, BTreeSet<ClaimId>>,
    last: BTreeMap<Name, u64>,
    told: BTreeMap<ClaimId, Token>,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(Retold(Arc::new(ReusesTokens::default())))
}

impl ReusesTokens {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Teller for ReusesTokens {
    fn joining(&self, claim: &Claim) {
        let mut lines = self.lines();
        lines.of.insert(claim.id, claim.name.clone());
        lines.standing.entry(claim.name.clone()).or_default().insert(claim.id);
    }

    fn token(&self, id: ClaimId, token: Token) -> Token {
        let mut lines = self.lines();
        if let Some(told) = lines.told.get(&id) {
            return *told;
        }
        let Some(name) = lines.of.get(&id).cloned() else {
            return token;
        };
        let last = lines.last.entry(name).or_default();
        *last += 1;
        let told = Token::from_order(*last).unwrap_or(token);
        lines.told.insert(id, told);
        told
    }

    fn left(&self, name: &Name, id: ClaimId) {
        let mut lines = self.lines();
        let is_empty = lines.standing.get_mut(name).is_none_or(|standing| {
            standing.remove(&id);
            standing.is_empty()
        });
        if is_empty {
            lines.last.remove(name);
        }
    }

    fn over(&self) {}
}
