//! One name's line, fast however many claims stand in it.
//!
//! Claims are numbered and kept in order of arrival. Grants follow the same order and held is sticky, so the held
//! claims are always the front of the line: the number `front` separates them from the waiters. A join, a leave
//! anywhere, a grant and the search for the heaviest waiter each take a step or two into an ordered row.

use std::ops::Bound;

use tidelock_core::backend::{Grant, Left, Moment};
use tidelock_core::{ClaimId, Error, Kind, Name, Result, Token, Weight};

use crate::small_map::SmallMap;

#[derive(Debug)]
pub(crate) struct Line {
    name: Name,
    kind: Kind,
    capacity: Weight,
    /// The total weight of the held claims; after a shrink it may exceed the capacity.
    held: u64,
    /// The number of the next claim to come.
    next: u64,
    /// All claims before this number hold, all from it on wait.
    front: u64,
    standing: SmallMap<u64, Standing>,
    /// How many claims wait, by weight.
    waiting: SmallMap<Weight, usize>,
}

/// One claim in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) id: ClaimId,
    pub(crate) weight: Weight,
    pub(crate) since: Moment,
    /// Its token when it is held.
    pub(crate) token: Option<Token>,
}

impl Line {
    pub(crate) fn new(name: Name, kind: Kind, capacity: Weight) -> Self {
        Self {
            name,
            kind,
            capacity,
            held: 0,
            next: 0,
            front: 0,
            standing: SmallMap::new(),
            waiting: SmallMap::new(),
        }
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn capacity(&self) -> Weight {
        self.capacity
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// The claim that came as number `order`.
    pub(crate) fn at(&self, order: u64) -> Option<&Standing> {
        self.standing.get(&order)
    }

    /// All claims, in order of arrival.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Standing> {
        self.standing.iter().map(|(_, standing)| standing)
    }

    /// The held claims, in order of arrival.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Standing> {
        self.all().take_while(|standing| standing.token.is_some())
    }

    /// Whether a claim of this kind and weight may stand here at all.
    pub(crate) fn admit(&self, kind: Kind, weight: Weight) -> Result<()> {
        if kind != self.kind {
            return Err(Error::other_kind(self.kind));
        }
        if weight > self.capacity {
            return Err(Error::too_heavy(self.capacity));
        }
        Ok(())
    }

    /// Whether a new claim of this weight would be held at once.
    pub(crate) fn fits(&self, weight: Weight) -> bool {
        self.waiting.is_empty() && self.has_room_for(weight)
    }

    /// Appends a claim, and returns its number.
    pub(crate) fn push(&mut self, standing: Standing) -> u64 {
        let order = self.next;
        self.next += 1;
        if standing.token.is_some() {
            self.front = self.next;
            self.held += u64::from(standing.weight.get());
        } else {
            self.start_waiting(standing.weight);
        }
        self.standing.insert(order, standing);
        order
    }

    /// Takes a claim out, wherever it stands.
    pub(crate) fn remove(&mut self, order: u64) -> Left {
        let Some(standing) = self.standing.remove(&order) else {
            return Left::Absent;
        };
        if standing.token.is_some() {
            if !seeded!("permits_are_not_given_back") || self.kind != Kind::Semaphore {
                self.held -= u64::from(standing.weight.get());
            }
            Left::Held
        } else {
            self.stop_waiting(standing.weight);
            Left::Waiting
        }
    }

    /// Grants the first waiter, if it fits now. No claim passes it, however light.
    pub(crate) fn grant_next(&mut self, next_token: impl FnOnce() -> Token) -> Option<(ClaimId, Grant)> {
        if self.waiting.is_empty() {
            return None;
        }
        let (&order, &Standing { id, weight, .. }) =
            self.standing.from(Bound::Included(&self.front)).next()?;
        if !self.has_room_for(weight) {
            return None;
        }
        let token = next_token();
        self.standing.get_mut(&order)?.token = Some(token);
        self.stop_waiting(weight);
        self.held += u64::from(weight.get());
        self.front = order + 1;
        Some((id, self.grant(token)))
    }

    /// The grant with this token, as clients are told it.
    pub(crate) fn grant(&self, token: Token) -> Grant {
        Grant { token, capacity: self.capacity }
    }

    /// Makes a claim lighter where it stands.
    pub(crate) fn lighten(&mut self, order: u64, to: Weight) -> Result<()> {
        let Some(standing) = self.standing.get_mut(&order) else {
            return Ok(());
        };
        let from = standing.weight;
        if to > from {
            return Err(Error::heavier(from));
        }
        standing.weight = to;
        if standing.token.is_some() {
            self.held -= u64::from(from.get() - to.get());
        } else {
            self.stop_waiting(from);
            self.start_waiting(to);
        }
        Ok(())
    }

    /// Changes the capacity. Held claims stay held.
    pub(crate) fn resize(&mut self, from: Weight, to: Weight) -> Result<()> {
        if self.kind != Kind::Semaphore {
            return Err(Error::other_kind(self.kind));
        }
        if self.capacity != from {
            return Err(Error::other_size(self.capacity));
        }
        if let Some((heaviest, _)) = self.waiting.last()
            && *heaviest > to
        {
            return Err(Error::strands());
        }
        self.capacity = to;
        Ok(())
    }

    fn has_room_for(&self, weight: Weight) -> bool {
        self.held + u64::from(weight.get()) <= u64::from(self.capacity.get())
    }

    fn start_waiting(&mut self, weight: Weight) {
        match self.waiting.get_mut(&weight) {
            Some(count) => *count += 1,
            None => self.waiting.insert(weight, 1),
        }
    }

    fn stop_waiting(&mut self, weight: Weight) {
        match self.waiting.get_mut(&weight) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.waiting.remove(&weight)),
        }
    }
}
