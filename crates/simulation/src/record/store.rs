//! What the store does.

use tidelock_core::backend::{Clock, Grant, Moment, Place};
use tidelock_core::{ClaimId, Kind, Name, SessionId};
use tidelock_history::EventKind;

use super::{CURRENT, Inner, Record, Standing};
use crate::time::lock;

impl Record {
    /// A join is sent, on behalf of the claim of the history that is being asked for.
    pub(crate) fn joins(&self, id: ClaimId, name: &str) {
        let mut inner = lock(&self.inner);
        let is_of_name = |claim: &u64| inner.asked.get(claim).is_some_and(|asked| &*asked.name == name);
        let claim = CURRENT.with_borrow(|claims| claims.iter().copied().find(is_of_name)).unwrap_or(0);
        if inner.standing.contains_key(&id) {
            return;
        }
        let before = inner.asked.get_mut(&claim).and_then(|asked| asked.id.replace(id));
        if let Some(before) = before {
            self.judge_place(&mut inner, claim, before);
            inner.end(before, self.time.now());
            inner.unheard.remove(&before);
            // Its first claim has lost its place, which others may have by now.
            self.push(&mut inner, 0, EventKind::Fault { act: "a claim stands in line anew".into() });
            self.push(&mut inner, 0, EventKind::Healed);
        }
        let name = inner.intern(name);
        let standing = Standing {
            claim,
            name,
            joined: self.time.now(),
            told: None,
            granted_at: Moment::NEVER,
            used_since: None,
            is_excused: false,
            stands: false,
            has_left: false,
            heard: None,
            waits: false,
            is_anyones: false,
            is_gone: false,
            is_abandoned: false,
        };
        inner.standing.insert(id, standing);
    }

    /// The line of a claim.
    pub(crate) fn name_of(&self, id: ClaimId) -> Option<Name> {
        let inner = lock(&self.inner);
        inner.standing.get(&id).and_then(|standing| Name::new(&standing.name).ok())
    }

    /// The store has the claim in its line.
    pub(crate) fn stands(&self, id: ClaimId) {
        let mut inner = lock(&self.inner);
        let Some(standing) = inner.standing.get_mut(&id).filter(|standing| !standing.stands) else { return };
        standing.stands = true; // a repeated join is answered the same
        let claim = standing.claim;
        let name = inner.name_of(claim);
        // Where holds are passed on, who stands in line is passed by some who come later.
        let is_judged =
            !self.lingers || inner.asked.get(&claim).is_some_and(|asked| asked.kind == Kind::Semaphore);
        if is_judged && inner.state(&name).asking.contains(&claim) {
            self.push(&mut inner, claim, EventKind::Stands);
        }
    }

    /// Its client hears that the claim stands, and keeps it until then by its own clock, unless it renews it.
    pub(crate) fn hears(&self, id: ClaimId, place: &Place) {
        let (Place::Held { until, .. } | Place::Waiting { until, .. }) = place else { return };
        if let Some(standing) = lock(&self.inner).standing.get_mut(&id) {
            standing.heard.get_or_insert((self.time.now(), *until));
            standing.waits = matches!(place, Place::Waiting { .. });
        }
    }

    /// The store grants the claim. From now on nobody else may trust what does not fit beside it.
    pub(crate) fn store_grants(&self, id: ClaimId, grant: Grant) {
        let mut inner = lock(&self.inner);
        let now = self.time.now();
        let Some(standing) = inner.standing.get_mut(&id) else { return };
        standing.told = Some(grant.capacity.get());
        let (claim, name, is_excused) = (standing.claim, standing.name.clone(), standing.is_excused);
        let is_known = standing.granted_at < Moment::NEVER;
        standing.granted_at = standing.granted_at.min(now);
        let is_asked = inner.state(&name).asking.contains(&claim);
        if is_asked {
            inner.unheard.insert(id);
        }
        // A claim that holds already is answered the same again, also after a shrink that leaves no room for it.
        if is_known || is_excused || inner.state(&name).holds.contains_key(&claim) {
            return;
        }
        let Some(asked) = inner.asked.get(&claim) else { return };
        let (kind, weight, capacity) = (asked.kind, asked.weight, u64::from(grant.capacity.get()));
        let Inner { names, clients, asked, .. } = &mut *inner;
        let Some(state) = names.get(&name) else { return };
        let trusted = state.holds.iter().filter(|(claim, held)| {
            let of = asked.get(claim).map(|asked| asked.client);
            let now = of.and_then(|client| clients.get(client)).map(|client| client.clock.now());
            !held.is_excused && now.is_some_and(|now| held.lost.is_trusted_at(now))
        });
        let (mut sum, mut others) = (weight, Vec::new());
        for (other, held) in trusted {
            sum += held.weight;
            if held.kind != kind {
                sum = u64::MAX / 2;
            }
            others.push(*other);
        }
        if sum > capacity && !others.is_empty() {
            let sentence = format!(
                "on {name:?} the store grants claim {claim}, while claims {others:?} are still trusted, which leave no room for it"
            );
            inner.found("exclusion", sentence);
        }
    }

    /// A leave of the claim has come to the store, and found it held or not.
    pub(crate) fn store_forgets(&self, id: ClaimId, by: SessionId, was_held: bool) {
        let mut inner = lock(&self.inner);
        inner.unheard.remove(&id);
        inner.forget(id);
        let standing = inner.standing.get(&id).map(|standing| (standing.claim, standing.name.clone()));
        if let Some((claim, name)) = standing
            && inner.state(&name).asking.contains(&claim)
        {
            self.push(
                &mut inner,
                0,
                EventKind::Fault { act: "a claim that is still asked for leaves".into() },
            );
            self.push(&mut inner, 0, EventKind::Healed);
        }
        if was_held
            && id.session == by
            && let Some(standing) = inner.standing.get_mut(&id)
        {
            standing.has_left = true;
        }
    }

    /// A session has expired in the store, although its client has it.
    pub(crate) fn session_expires(&self, client: usize) {
        let mut inner = lock(&self.inner);
        let state = &inner.clients[client];
        if state.touched() + self.longest_ttl < self.time.now() {
            let sentence = format!("{} lost its session although all was well", state.who);
            inner.found("kept", sentence);
        }
    }

    /// The lifetime of a claim was over, and its place is gone.
    pub(crate) fn store_buries(&self, id: ClaimId) {
        let mut inner = lock(&self.inner);
        inner.unheard.remove(&id);
        inner.forget(id);
        self.push(&mut inner, 0, EventKind::Fault { act: "a claim expires in the store".into() });
        self.push(&mut inner, 0, EventKind::Healed);
    }

    /// The store has ended a session: the places of its claims are gone.
    pub(crate) fn store_ends(&self, session: SessionId) {
        let mut inner = lock(&self.inner);
        inner.unheard.retain(|id| id.session != session);
        let of_session: Vec<ClaimId> =
            inner.standing.keys().copied().filter(|id| id.session == session).collect();
        of_session.into_iter().for_each(|id| inner.forget(id));
        self.push(&mut inner, 0, EventKind::Fault { act: "a session ends in the store".into() });
        self.push(&mut inner, 0, EventKind::Healed);
    }
}
