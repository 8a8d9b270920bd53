//! Looking after claims that wait, in case nothing tells of their turn.
//!
//! Mostly nothing has changed: our claims stand, and ahead of them the one that is watched. Only these are read then, and
//! not the line, in which thousands may wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse};
use tidelock_core::backend::{Grant, Sight};
use tidelock_core::{ClaimId, Kind, Name, Result, SessionId, Weight};
use tidelock_model::places;

use crate::gathering::revision;
use crate::line_view::{LineView, Standing};
use crate::open_session::{OpenSession, lease_id};
use crate::own_claims::{Looked, Stage, Stands};
use crate::trouble::Blame;

impl OpenSession {
    /// Looks for these claims of ours.
    pub(crate) async fn look_for(self: &Arc<Self>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: self.lease.ttl };
        if let Some(ahead) = self.surely_wait(name, waiting).await? {
            sight.look_in = self.look_again_in(ahead).await;
            return Ok(sight);
        }
        let view = self.read_line(name).await?;
        let shown = self.own_claims.shown(&view);
        let wanted: HashSet<ClaimId> = waiting.iter().copied().collect();
        let (mut standing, mut misplaced) = (HashSet::new(), Vec::new());
        for (claim, place) in places(&shown).filter(|(claim, _)| wanted.contains(&claim.id)) {
            standing.insert(claim.id);
            match self.own_claims.looked(name, claim, place) {
                Looked::Held(token) => {
                    sight.held.push((claim.id, Grant { token, capacity: shown.size(claim) }));
                }
                Looked::Misplaced => misplaced.push(claim.id),
                Looked::Waits => {}
            }
        }
        for id in &misplaced {
            self.clone().leave_in_the_background(name.clone(), *id);
        }
        let is_gone =
            |id: &&ClaimId| !standing.contains(id) && self.own_claims.stage(**id) != Some(Stage::Asked);
        sight.gone.extend(waiting.iter().filter(is_gone));
        for id in &sight.gone {
            let news = self.own_claims.left(name, *id, Some(view.revision));
            self.tell(name, news);
        }
        sight.gone.extend(misplaced);
        self.shows(name, &view);
        if let Some(first) = view.first().filter(|first| first.id.session != self.id) {
            sight.look_in = self.look_again_in(first.id.session).await;
        }
        Ok(sight)
    }

    /// Whether all of these claims surely wait: they stand where they did, and a claim of another client, which is watched,
    /// stands ahead. Returns whose that is. None: the line must be read.
    async fn surely_wait(self: &Arc<Self>, name: &Name, waiting: &[ClaimId]) -> Result<Option<SessionId>> {
        let Some(ahead) = self.own_claims.watched_claim(name) else { return Ok(None) };
        let get = |key: String| TxnOp::get(key, Some(GetOptions::new().with_prefix()));
        let gets = [get(self.keys.claims(name, self.id)), get(self.keys.claim(name, ahead))];
        let answer = match self.link.transact(Txn::new().and_then(gets)).await {
            // Older versions refuse every transaction when their database is full. A read of the line is always answered.
            Err(failed) if failed.blame == Blame::Joins => return Ok(None),
            answer => answer.map_err(|failed| self.noted(failed.error))?,
        };
        let (skip, revision) = (self.keys.line(name).len(), revision(&answer));
        let mut views = answer.op_responses().into_iter().filter_map(|part| match part {
            TxnOpResponse::Get(get) => Some(LineView::of(get.kvs(), skip, revision)),
            _ => None,
        });
        let (Some(own), Some(other)) = (views.next(), views.next()) else { return Ok(None) };
        let mut first: Option<(u64, &Standing)> = None;
        for id in waiting {
            let Some(mine) = own.place(*id).zip(own.find(*id)) else { return Ok(None) };
            if !self.stands_at(*id, mine.0) {
                return Ok(None);
            }
            first = first.filter(|first| first.0 < mine.0).or(Some(mine));
        }
        let blocks = other.place(ahead).zip(other.find(ahead)).zip(first);
        Ok(blocks.is_some_and(|(ahead, first)| must_wait(first, ahead)).then_some(ahead.session))
    }

    /// When to look again for claims behind another client's. A client that lives renews its lease every third of it. If
    /// less is left, it may be dead, and the end of its lease must not be missed.
    async fn look_again_in(self: &Arc<Self>, session: SessionId) -> Duration {
        let soon = self.lease.ttl / 20;
        // Many claims may wait behind that client, each in a line of its own.
        let look_in = self.looks.look_in(session, self.clock.now(), soon / 2);
        let asked = look_in.get_or_init(|| async {
            let id = lease_id(session);
            let asking =
                self.link.ask(|client| async move { client.lease_client().time_to_live(id, None).await });
            let Ok(lease) = asking.await else { return self.lease.ttl };
            let (left, whole) = (lease.ttl(), lease.granted_ttl());
            if left >= 0 && left * 3 < whole { soon } else { self.lease.ttl }
        });
        *asked.await
    }

    fn stands_at(&self, id: ClaimId, place: u64) -> bool {
        matches!(self.own_claims.stage(id), Some(Stage::Stands(Stands { order, is_held: false, .. })) if order == place)
    }
}

/// Whether the first claim cannot have its turn before the second has left, by their places and kinds alone.
fn must_wait((behind, first): (u64, &Standing), (place, ahead): (u64, &Standing)) -> bool {
    let is_shared = first.weight == Weight::ONE && ahead.weight == Weight::ONE;
    place < behind
        && first.kind == ahead.kind
        && match first.kind {
            Kind::Mutex => true,
            Kind::RwLock => !is_shared,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(kind: Kind, weight: Weight) -> Standing {
        let id = ClaimId { session: SessionId::from_bits(1), number: 1 };
        Standing { id, kind, declared: weight, weight }
    }

    #[test]
    fn who_must_wait_is_seen_by_two_claims_alone() {
        let (one, all) = (Weight::ONE, Weight::MAX);
        let waits = |kind, first, ahead| must_wait((2, &standing(kind, first)), (1, &standing(kind, ahead)));
        assert!(waits(Kind::Mutex, one, one));
        assert!(waits(Kind::RwLock, all, one) && waits(Kind::RwLock, one, all));
        assert!(!waits(Kind::RwLock, one, one), "two readers");
        assert!(!waits(Kind::Semaphore, one, one), "there may be room for both");
        let mutex = standing(Kind::Mutex, one);
        assert!(!must_wait((1, &mutex), (2, &mutex)), "it stands behind");
        assert!(!must_wait((2, &mutex), (1, &standing(Kind::RwLock, all))), "it must stand elsewhere");
    }
}
