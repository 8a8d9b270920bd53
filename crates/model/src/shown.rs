//! A line as shown by a store that keeps no line itself: the claims that came, each with what its client declared.
//!
//! Such a store (etcd, ZooKeeper) lets every claim in. A claim of another kind or size may stand there until its
//! client has seen that it should not, or, if that client is cut off first, until its session ends. So a claim proves
//! nothing by standing in the line. Every decision about a claim depends only on the claims *ahead* of it, and
//! nothing that comes later can change it:
//!
//! - A claim's *type* is its kind and its size: the capacity that it declares, or the one that a resize gave it.
//! - A claim is held when all claims ahead are of its own type, and together with it they fit its size.
//! - A claim of another type ahead is a blocker, even while it is leaving, and gives no claim its kind or size.
//!
//! Guards that overlap are therefore of one type, however many types stand in the line.

use alloc::vec::Vec;

use crate::{ClaimId, Kind, Token, Weight};

/// The line of one name, as every client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShownLine {
    /// All claims, in order of arrival.
    pub claims: Vec<ShownClaim>,
    /// What the last resize wrote.
    pub resized: Option<Resized>,
}

/// One claim in a [`ShownLine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShownClaim {
    /// Its id.
    pub id: ClaimId,
    /// The kind of lock that its client uses.
    pub kind: Kind,
    /// How much of the capacity it takes.
    pub weight: Weight,
    /// The capacity that its client declares.
    pub declared: Weight,
    /// When it came: the store's own order.
    pub order: u64,
    /// Its token, if the claim is the client's own and the client knows that it is held. Held is sticky, and only the
    /// holder remembers it.
    pub token: Option<Token>,
}

/// A semaphore's capacity as a resize wrote it, for the claims that stood there then. Later claims declare their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resized {
    /// The capacity.
    pub capacity: Weight,
    /// It applies to every claim with a lower [`order`](ShownClaim::order).
    pub before: u64,
    /// Every claim with a lower order was held when this was written, and stays held even if it no longer fits.
    pub let_in: u64,
}

impl ShownLine {
    /// The claim with this id.
    #[must_use]
    pub fn claim(&self, id: ClaimId) -> Option<&ShownClaim> {
        self.claims.iter().find(|claim| claim.id == id)
    }

    /// How many claims stand ahead of this one.
    #[must_use]
    pub fn position(&self, id: ClaimId) -> Option<usize> {
        self.claims.iter().position(|claim| claim.id == id)
    }

    /// The capacity under which this claim stands.
    #[must_use]
    pub fn size(&self, claim: &ShownClaim) -> Weight {
        let covers = |resized: &Resized| claim.kind == Kind::Semaphore && claim.order < resized.before;
        self.resized.filter(covers).map_or(claim.declared, |resized| resized.capacity)
    }

    /// The kind and the size in use: those of the first claim. `None` if the line is empty.
    #[must_use]
    pub fn in_use(&self) -> Option<(Kind, Weight)> {
        self.claims.first().map(|first| self.type_of(first))
    }

    /// The held claims, in order of arrival: those known to be held, and those that fit.
    pub fn held(&self) -> impl Iterator<Item = &ShownClaim> {
        self.each().filter(|(_, held)| *held).map(|(claim, _)| claim)
    }

    /// All other claims, in order of arrival.
    pub fn waiting(&self) -> impl Iterator<Item = &ShownClaim> {
        self.each().filter(|(_, held)| !*held).map(|(claim, _)| claim)
    }

    /// Each claim, and whether it is held.
    pub fn each(&self) -> impl Iterator<Item = (&ShownClaim, bool)> {
        let (mut sum, mut is_front) = (0, true);
        self.claims.iter().map(move |claim| {
            sum += u64::from(claim.weight.get());
            is_front &= self.is_as_the_first(claim) && sum <= u64::from(self.size(claim).get());
            (claim, is_front || self.is_known_to_be_held(claim))
        })
    }

    /// How many claims at the front are held, with no waiting claim between them: a resize lets these stay held. A
    /// held claim behind a waiting one knows it by its token, and no other record of it is needed.
    #[must_use]
    pub fn held_in_front(&self) -> usize {
        self.each().take_while(|(_, held)| *held).count()
    }

    /// Whether all claims are of one type.
    #[must_use]
    pub fn is_of_one_type(&self) -> bool {
        self.claims.iter().all(|claim| self.in_use() == Some(self.type_of(claim)))
    }

    /// Whether a new claim of this weight would be held at once, if it is of the type in use.
    #[must_use]
    pub fn has_room(&self, weight: Weight) -> bool {
        let everyone: u64 = self.claims.iter().map(|claim| u64::from(claim.weight.get())).sum();
        let fits = |(_, size): (Kind, Weight)| everyone + u64::from(weight.get()) <= u64::from(size.get());
        self.in_use().is_none_or(fits) && self.is_of_one_type()
    }

    /// The first waiting permits that could never be held with size `to`: the reason to refuse such a resize.
    #[must_use]
    pub fn stranded_by(&self, to: Weight) -> Option<ClaimId> {
        let mut permits = self.waiting().filter(|claim| claim.kind == Kind::Semaphore);
        permits.find(|claim| claim.weight > to).map(|claim| claim.id)
    }

    /// Its kind and its size.
    pub(crate) fn type_of(&self, claim: &ShownClaim) -> (Kind, Weight) {
        let capacity = if seeded!("the_first_gives_the_size") {
            self.claims.first().map_or(claim.declared, |first| first.declared)
        } else {
            self.size(claim)
        };
        let kind = if seeded!("the_first_gives_the_kind") { Kind::Semaphore } else { claim.kind };
        (kind, capacity)
    }

    fn is_as_the_first(&self, claim: &ShownClaim) -> bool {
        seeded!("a_stray_ahead_is_skipped") || self.in_use() == Some(self.type_of(claim))
    }

    fn is_known_to_be_held(&self, claim: &ShownClaim) -> bool {
        claim.token.is_some() || self.resized.is_some_and(|resized| claim.order < resized.let_in)
    }
}
