//! Until when claims live on one name, as far as their clients can know it: surely so long, and at most so long.
//!
//! A store may have claims of one client live and die together, or each by itself, or round a lifetime up; and who is
//! dead is taken out when somebody meets it. So between the two moments, either is right.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Stands;
use crate::{ClaimId, SessionId};

/// How much longer a lifetime may be than was asked for, since stores round it.
const ROUNDED: u64 = 20_000;
/// How much sooner a lifetime may end than it seems from the moment of the request.
const GRAIN: u64 = 1_000;

/// One name.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    /// Who holds in the store's eyes, and by which token.
    pub(super) tokens: BTreeMap<ClaimId, u64>,
    /// The newest token of all.
    pub(super) newest: u64,
    /// How clients live that hold.
    holders: BTreeMap<SessionId, Life>,
    /// How claims live that wait.
    waiters: BTreeMap<ClaimId, Life>,
    /// Who holds still, and was surely dead before.
    dead: BTreeSet<ClaimId>,
    /// Until when joins are surely void, and until when at most.
    void: BTreeMap<ClaimId, u64>,
    void_until: u64,
    /// Whether the store has lost something here: then nothing is sure until it is renewed.
    pub(super) is_doubtful: bool,
    /// Whether the clock was set back while somebody waited: places are ahead of it, and lifetimes go by them.
    is_set_back: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    surely: u64,
    at_most: u64,
}

/// A lifetime that begins now, and cannot begin later than at `latest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) now: u64,
    pub(super) latest: u64,
    pub(super) ttl: u64,
}

impl Lease {
    const fn surely(self) -> u64 {
        self.now + self.ttl - GRAIN
    }

    const fn at_most(self) -> u64 {
        self.latest + self.ttl + ROUNDED
    }
}

impl Book {
    pub(super) fn holds(&self, id: ClaimId) -> bool {
        self.tokens.contains_key(&id)
    }

    /// Until when this claim surely lives.
    pub(super) fn surely(&self, id: ClaimId) -> u64 {
        if self.dead.contains(&id) {
            return 0;
        }
        match self.holders.get(&id.session).filter(|_| self.holds(id)) {
            Some(life) => life.surely,
            None => self.waiters.get(&id).map_or(0, |life| life.surely),
        }
    }

    /// Until when it lives at most.
    pub(super) fn at_most(&self, id: ClaimId) -> u64 {
        if self.dead.contains(&id) {
            return 0;
        }
        match self.holders.get(&id.session).filter(|_| self.holds(id)) {
            Some(life) => life.at_most,
            None => self.waiters.get(&id).map_or(0, |life| life.at_most),
        }
    }

    /// Until when the first of those who hold dies, at most.
    pub(super) fn next_death(&self) -> Option<u64> {
        self.tokens.keys().map(|id| self.at_most(*id)).min()
    }

    /// All moments at which something may happen by itself.
    pub(super) fn ends(&self) -> impl Iterator<Item = u64> {
        let holders = self.tokens.keys().filter_map(|id| self.holders.get(&id.session));
        let holders = holders.flat_map(|life| [life.surely, life.at_most]);
        holders
            .chain(self.waiters.values().flat_map(|life| [life.surely, life.at_most]))
            .chain(self.void.values().copied())
    }

    pub(super) fn granted(&mut self, id: ClaimId, token: u64) {
        let (surely, at_most) = (self.surely(id), self.at_most(id));
        self.tokens.insert(id, token);
        self.newest = token;
        self.waiters.remove(&id);
        let life = self.holders.entry(id.session).or_default();
        *life = Life { surely: life.surely.max(surely), at_most: life.at_most.max(at_most) };
    }

    /// This claim held, and does so no more.
    pub(super) fn forget(&mut self, id: ClaimId) {
        self.tokens.remove(&id);
        self.dead.remove(&id);
    }

    /// This client's claims that hold live anew.
    pub(super) fn holder_lives(&mut self, session: SessionId, lease: Lease) {
        let life = self.holders.entry(session).or_default();
        *life = Life { surely: lease.surely(), at_most: life.at_most.max(lease.at_most()) };
    }

    /// This claim has come to wait. Where something was lost the store may think that it knows this client still.
    pub(super) fn waiter_comes(&mut self, id: ClaimId, lease: Lease) {
        let surely = if self.is_doubtful { 0 } else { lease.surely() };
        self.waiters.insert(id, Life { surely, at_most: lease.at_most() });
        self.was_heard_of(id.session, lease);
    }

    /// This claim that waits lives anew, unless its lifetime is over; and its client's others may.
    pub(super) fn waiter_lives(&mut self, id: ClaimId, lease: Lease) {
        if let Some(life) = self.waiters.get_mut(&id).filter(|life| lease.now < life.surely) {
            life.surely = lease.surely();
        }
        self.was_heard_of(id.session, lease);
    }

    /// This client's claims that wait may live anew, but for those whose lifetimes are over; unless the store has lost
    /// what it knew of that, or its clock was set back.
    pub(super) fn was_heard_of(&mut self, session: SessionId, lease: Lease) {
        let is_unsure = self.is_doubtful || self.is_set_back;
        let may_live = |life: &Life| is_unsure || lease.now < life.at_most;
        for (id, life) in &mut self.waiters {
            if id.session == session && may_live(life) {
                life.at_most = life.at_most.max(lease.at_most());
            }
        }
    }

    pub(super) fn make_void(&mut self, id: ClaimId, lease: Lease) {
        self.void.insert(id, lease.surely());
        self.void_until = self.void_until.max(lease.at_most());
    }

    /// Whether a join of this claim may be forgotten to be void, and whether it may be remembered.
    pub(super) fn is_void(&self, id: ClaimId, now: u64) -> (bool, bool) {
        let until = self.void.get(&id);
        (until.is_some_and(|until| *until <= now), until.is_some() && now < self.void_until)
    }

    /// Whose time is over stays dead, whatever becomes of the client's other claims.
    pub(super) fn bury(&mut self, now: u64) {
        let over = self.tokens.keys().copied().filter(|id| self.at_most(*id) <= now).collect::<Vec<_>>();
        self.dead.extend(over);
    }

    /// Who does not stand there any more, or not as it did, is forgotten.
    pub(super) fn keep(&mut self, shown: &[Stands]) {
        let find = |id: ClaimId| shown.iter().find(|stands| stands.id == id);
        self.tokens.retain(|id, _| find(*id).is_some_and(|stands| stands.token.is_some()));
        self.waiters.retain(|id, _| find(*id).is_some());
        self.dead.retain(|id| self.tokens.contains_key(id));
        let (holders, tokens) = (&mut self.holders, &self.tokens);
        holders.retain(|session, _| tokens.keys().any(|id| id.session == *session));
        self.is_doubtful &= !(self.tokens.is_empty() && self.waiters.is_empty());
        self.is_set_back &= !self.waiters.is_empty();
    }

    /// The clock was set back by so much. What was promised was promised for a time, and that passes all the same.
    pub(super) fn set_back(&mut self, by: u64) {
        let moments = self.holders.values_mut().map(|life| &mut life.surely);
        let moments = moments
            .chain(self.waiters.values_mut().map(|life| &mut life.surely))
            .chain(self.void.values_mut());
        moments.for_each(|surely| *surely = surely.saturating_sub(by));
        if by > 0 {
            self.dead.clear(); // nobody has met them, and a store knows only its clock
            self.is_set_back = true;
        }
    }

    /// The store has lost something: nothing is sure.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.holders.values_mut().for_each(|life| life.surely = 0);
        self.waiters.values_mut().for_each(|life| life.surely = 0);
        self.void.values_mut().for_each(|surely| *surely = 0);
    }
}
