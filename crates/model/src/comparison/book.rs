//! Until when the claims on one name live, as far as their clients can know: surely until one moment, and at most
//! until another.
//!
//! A store may let the claims of one client live and die together or each by itself, or round a lifetime up, and a
//! dead claim is taken out only when some request finds it. So between the two moments, both alive and dead are
//! right.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Stands;
use crate::{ClaimId, SessionId};

/// How much longer than requested a lifetime may be, because stores round it.
const ROUNDED: u64 = 20_000;
/// How much earlier a lifetime may end, counted from the moment of the request.
const GRAIN: u64 = 1_000;

/// The lifetimes on one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    /// The claims that the store says hold, with their tokens.
    pub(super) tokens: BTreeMap<ClaimId, u64>,
    /// The newest token of all.
    pub(super) newest: u64,
    /// The lifetimes of clients that hold.
    holders: BTreeMap<SessionId, Life>,
    /// The lifetimes of claims that wait.
    waiters: BTreeMap<ClaimId, Life>,
    /// Claims that the store still shows as held, but that surely died.
    dead: BTreeSet<ClaimId>,
    /// Until when joins are surely void, and until when at most.
    void: BTreeMap<ClaimId, u64>,
    void_until: u64,
    /// Whether the store has lost data here: then nothing is sure until it is renewed.
    pub(super) is_doubtful: bool,
    /// Whether the clock was set back while a claim waited: places are ahead of it, and lifetimes follow the places.
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

    /// When the first holder dies, at the latest.
    pub(super) fn next_death(&self) -> Option<u64> {
        self.tokens.keys().map(|id| self.at_most(*id)).min()
    }

    /// All moments at which a lifetime may end by itself.
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

    /// This claim held, and no longer does.
    pub(super) fn forget(&mut self, id: ClaimId) {
        self.tokens.remove(&id);
        self.dead.remove(&id);
    }

    /// Restarts the lifetime of this client's held claims.
    pub(super) fn holder_lives(&mut self, session: SessionId, lease: Lease) {
        let life = self.holders.entry(session).or_default();
        *life = Life { surely: lease.surely(), at_most: life.at_most.max(lease.at_most()) };
    }

    /// This claim has begun to wait. A store that lost data may take this client for one that it still knows.
    pub(super) fn waiter_comes(&mut self, id: ClaimId, lease: Lease) {
        let surely = if self.is_doubtful { 0 } else { lease.surely() };
        self.waiters.insert(id, Life { surely, at_most: lease.at_most() });
        self.was_heard_of(id.session, lease);
    }

    /// Restarts the lifetime of this waiting claim, unless it is over; those of its client's other waiters may
    /// restart, too.
    pub(super) fn waiter_lives(&mut self, id: ClaimId, lease: Lease) {
        if let Some(life) = self.waiters.get_mut(&id).filter(|life| lease.now < life.surely) {
            life.surely = lease.surely();
        }
        self.was_heard_of(id.session, lease);
    }

    /// The lifetimes of this client's waiting claims may have restarted, except those that are over. If the store has
    /// lost data or its clock was set back, even those may have.
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

    /// Whether the store may have forgotten that this join is void, and whether it may still remember it.
    pub(super) fn is_void(&self, id: ClaimId, now: u64) -> (bool, bool) {
        let until = self.void.get(&id);
        (until.is_some_and(|until| *until <= now), until.is_some() && now < self.void_until)
    }

    /// A claim whose time is over stays dead, whatever happens to the client's other claims.
    pub(super) fn bury(&mut self, now: u64) {
        let over = self.tokens.keys().copied().filter(|id| self.at_most(*id) <= now).collect::<Vec<_>>();
        self.dead.extend(over);
    }

    /// Forgets the claims that no longer stand there, or not as they did.
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

    /// The clock was set back by this much. Promised lifetimes are durations, and they pass all the same.
    pub(super) fn set_back(&mut self, by: u64) {
        let moments = self.holders.values_mut().map(|life| &mut life.surely);
        let moments = moments
            .chain(self.waiters.values_mut().map(|life| &mut life.surely))
            .chain(self.void.values_mut());
        moments.for_each(|surely| *surely = surely.saturating_sub(by));
        if by > 0 {
            self.dead.clear(); // no request has found them, and a store knows only its clock
            self.is_set_back = true;
        }
    }

    /// The store has lost data: nothing is sure.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.holders.values_mut().for_each(|life| life.surely = 0);
        self.waiters.values_mut().for_each(|life| life.surely = 0);
        self.void.values_mut().for_each(|surely| *surely = 0);
    }
}
