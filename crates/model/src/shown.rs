//! A line as a store shows it that keeps no line of its own: claims that came, each with what its client declared.
//!
//! Such a store (etcd, ZooKeeper) lets everyone in. A claim of another kind or another size may stand there until its
//! client has seen that it should not, and one whose client is cut off first stands there until its session ends. So
//! nothing is believed because somebody stands there. What is decided of a claim is decided by what stands *ahead* of
//! it alone, and nothing that comes later can change that:
//!
//! - A claim's *type* is its kind and its size: the capacity that it declares, or what a resize made of it.
//! - A claim is held when everyone ahead is of its own type, and all of them together with it fit its size.
//! - A claim of another type ahead is a blocker, also while it is leaving, and gives nobody its kind or size.
//!
//! Guards that overlap are therefore of one type, however many types stand there.

use alloc::vec::Vec;

use crate::{ClaimId, Kind, Token, Weight};

/// The line of one name, as everyone sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShownLine {
    /// Everyone who stands here, first come first.
    pub claims: Vec<ShownClaim>,
    /// What a resize has written down.
    pub resized: Option<Resized>,
}

/// One claim in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShownClaim {
    /// Who stands here.
    pub id: ClaimId,
    /// What its client uses the name as.
    pub kind: Kind,
    /// How much of the capacity it takes.
    pub weight: Weight,
    /// What its client declares the capacity to be.
    pub declared: Weight,
    /// When it came: the store's own order.
    pub order: u64,
    /// Its token, if it is one's own and was told that it is held. Held is sticky, and only the holder remembers.
    pub token: Option<Token>,
}

/// A semaphore's capacity that was written down, for those who stood there then. Whoever comes later declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resized {
    /// The capacity.
    pub capacity: Weight,
    /// It is that of every claim with a lower [`order`](ShownClaim::order).
    pub before: u64,
    /// Every claim with a lower order was held when it was written, and is, also if it does not fit any more.
    pub let_in: u64,
}

impl ShownLine {
    /// The claim with this id.
    #[must_use]
    pub fn claim(&self, id: ClaimId) -> Option<&ShownClaim> {
        self.claims.iter().find(|claim| claim.id == id)
    }

    /// How many stand ahead of this claim.
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

    /// What the name is used as, and in which size: the first one's. None: nobody stands here.
    #[must_use]
    pub fn in_use(&self) -> Option<(Kind, Weight)> {
        self.claims.first().map(|first| self.type_of(first))
    }

    /// Those who hold, first come first: they were told, or they fit.
    pub fn held(&self) -> impl Iterator<Item = &ShownClaim> {
        self.each().filter(|(_, held)| *held).map(|(claim, _)| claim)
    }

    /// Everyone else, first come first.
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

    /// How many stand in front who are held, with nobody between them who waits: those whom a resize lets stay in. Who is
    /// held behind one who waits knows it by its token, and needs nobody else to.
    #[must_use]
    pub fn held_in_front(&self) -> usize {
        self.each().take_while(|(_, held)| *held).count()
    }

    /// Whether everyone is of one type.
    #[must_use]
    pub fn is_of_one_type(&self) -> bool {
        self.claims.iter().all(|claim| self.in_use() == Some(self.type_of(claim)))
    }

    /// Whether a newcomer of this weight would be held at once, if it is of the type that is in use.
    #[must_use]
    pub fn has_room(&self, weight: Weight) -> bool {
        let everyone: u64 = self.claims.iter().map(|claim| u64::from(claim.weight.get())).sum();
        let fits = |(_, size): (Kind, Weight)| everyone + u64::from(weight.get()) <= u64::from(size.get());
        self.in_use().is_none_or(fits) && self.is_of_one_type()
    }

    /// The first permits that somebody waits for and could never have if the size became `to`: the reason to refuse that.
    #[must_use]
    pub fn stranded_by(&self, to: Weight) -> Option<ClaimId> {
        let mut permits = self.waiting().filter(|claim| claim.kind == Kind::Semaphore);
        permits.find(|claim| claim.weight > to).map(|claim| claim.id)
    }

    /// Its kind and its size.
    pub(crate) fn type_of(&self, claim: &ShownClaim) -> (Kind, Weight) {
        let capacity = if cfg!(tidelock_fault = "the_first_gives_the_size") {
            self.claims.first().map_or(claim.declared, |first| first.declared)
        } else {
            self.size(claim)
        };
        let kind =
            if cfg!(tidelock_fault = "the_first_gives_the_kind") { Kind::Semaphore } else { claim.kind };
        (kind, capacity)
    }

    fn is_as_the_first(&self, claim: &ShownClaim) -> bool {
        cfg!(tidelock_fault = "a_stray_ahead_is_skipped") || self.in_use() == Some(self.type_of(claim))
    }

    fn is_known_to_be_held(&self, claim: &ShownClaim) -> bool {
        claim.token.is_some() || self.resized.is_some_and(|resized| claim.order < resized.let_in)
    }
}
