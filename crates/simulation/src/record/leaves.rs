//! Leaves: a claim for which nobody has a use any more leaves soon, and is not left to its lifetime.

use std::time::Duration;

use tidelock_core::ClaimId;
use tidelock_core::backend::Moment;

use super::{Inner, Record, Standing};

/// How long a leave may take beyond a third of the ttl, after which the keeper sees to one that nobody polls.
const SOON: Duration = Duration::from_secs(1);

impl Inner {
    /// Nobody has a use for the claim from now on.
    pub(super) fn end(&mut self, id: ClaimId, now: Moment) {
        let stands = self.standing.get(&id).filter(|standing| !standing.is_gone && !standing.is_excused);
        if stands.is_some_and(|standing| standing.stands || standing.granted_at < Moment::NEVER) {
            self.leaving.entry(id).or_insert(now);
        }
    }

    /// The store has it no more.
    pub(super) fn forget(&mut self, id: ClaimId) {
        self.leaving.remove(&id);
        if let Some(standing) = self.standing.get_mut(&id) {
            standing.is_gone = true;
        }
    }
}

impl Record {
    pub(super) fn judge_leaves(&self, inner: &mut Inner) {
        let now = self.time.now();
        inner.leaving.retain(|_, since| *since + self.longest_ttl > now); // its lifetime is over
        inner.note_unseen_passes(now);
        let is_late = |(id, since): &(&ClaimId, &Moment)| {
            let is_judged = |standing: &&Standing| !standing.is_excused && !standing.is_abandoned;
            let Some(standing) = inner.standing.get(id).filter(is_judged) else {
                return false;
            };
            let Some(client) = inner.asked.get(&standing.claim).map(|asked| &inner.clients[asked.client])
            else {
                return false;
            };
            let of_name = inner.names.get(&standing.name).map_or(Moment::START, |name| name.touched);
            let tries = client.connect_deadline + client.longest_pause.min(self.longest_ttl / 9);
            let touched = client.touched().max(of_name);
            // Where something went wrong lately, the leave may have been sent on a connection that was dead by then.
            let has_one_try = touched + self.longest_ttl < **since;
            let sent = touched.max(**since) + if has_one_try { Duration::ZERO } else { tries };
            sent + self.longest_ttl / 3 + SOON.min(self.longest_ttl / 3) + self.answer < now
        };
        let late: Vec<ClaimId> = inner.leaving.iter().filter(is_late).map(|(id, _)| *id).collect();
        for id in late {
            inner.leaving.remove(&id);
            let Some(standing) = inner.standing.get(&id) else { continue };
            let (name, claim) = (standing.name.clone(), standing.claim);
            let sentence = format!("on {name:?} nobody has a use for claim {claim}, and it does not leave");
            inner.found("leaves", sentence);
        }
    }
}
