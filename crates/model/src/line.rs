//! The line of one name: claims in order of arrival.
//!
//! A claim *fits* when its weight and the weights of all claims ahead of it add up to at most the capacity. Sums only
//! grow towards the tail, so the claims that fit are the front of the line. A claim that fits is held, and stays held
//! until it leaves, whatever happens to the capacity.

use alloc::vec::Vec;

use crate::{Claim, ClaimId, Kind, Token, Weight, fault};

/// The line of one name, as a store shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The kind of lock.
    pub kind: Kind,
    /// How much weight may be held at once: what the first claim declared, or what a resize set.
    pub capacity: Weight,
    /// When the capacity last became smaller. Claims with a lower [`order`](Claim::order) may be held although they
    /// no longer fit.
    pub shrunk_at: Option<u64>,
    /// All claims, in order of arrival.
    pub claims: Vec<Claim>,
}

impl Line {
    /// An empty line.
    #[must_use]
    pub const fn new(kind: Kind, capacity: Weight) -> Self {
        Self { kind, capacity, shrunk_at: None, claims: Vec::new() }
    }

    /// The claim with this id.
    #[must_use]
    pub fn claim(&self, id: ClaimId) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }

    /// How many claims stand ahead of this one.
    #[must_use]
    pub fn position(&self, id: ClaimId) -> Option<usize> {
        self.claims.iter().position(|claim| claim.id == id)
    }

    /// The held claims, in order of arrival: those with a [token](Claim::token), and those that fit.
    pub fn held(&self) -> impl Iterator<Item = &Claim> {
        self.each().filter(|(_, held)| *held).map(|(claim, _)| claim)
    }

    /// All other claims, in order of arrival.
    pub fn waiting(&self) -> impl Iterator<Item = &Claim> {
        self.each().filter(|(_, held)| !*held).map(|(claim, _)| claim)
    }

    /// The first waiting claim that could never be held with capacity `to`: the reason to refuse such a resize.
    ///
    /// ```
    /// use tidelock_model::{Claim, ClaimId, Kind, Line, SessionId, Weight};
    ///
    /// let weight = |n| Weight::new(n).unwrap();
    /// let id = |number| ClaimId { session: SessionId::from_bits(7), number };
    /// let mut line = Line::new(Kind::Semaphore, weight(3));
    /// line.claims.push(Claim { id: id(1), weight: weight(2), order: 10, token: None });
    /// line.claims.push(Claim { id: id(2), weight: weight(3), order: 11, token: None });
    /// assert_eq!(line.stranded_by(weight(2)), Some(id(2)));
    /// ```
    #[must_use]
    pub fn stranded_by(&self, to: Weight) -> Option<ClaimId> {
        self.waiting().find(|claim| claim.weight > to).map(|claim| claim.id)
    }

    /// Whether a new claim of this weight would be held at once.
    pub(crate) fn has_room(&self, weight: Weight) -> bool {
        let everyone: u64 = self.claims.iter().map(|claim| u64::from(claim.weight.get())).sum();
        fit(everyone + u64::from(weight.get()), self.capacity)
    }

    /// Grants the claims that fit now, each with the next token: from the front, until one does not fit.
    pub(crate) fn grant(&mut self, mut next: impl FnMut() -> Token) -> Vec<(ClaimId, Token)> {
        let mut granted = Vec::new();
        let mut sum = 0;
        let mut behind = self.claims.len();
        for claim in &mut self.claims {
            sum += u64::from(claim.weight.get());
            behind -= 1;
            if claim.token.is_some() {
                continue; // sticky: a granted claim stays granted
            }
            if !fit(sum, self.capacity) || fault::waits_for_later(self.kind, claim.weight, behind) {
                if fault::is_passed(self.kind) {
                    sum -= u64::from(claim.weight.get());
                    continue;
                }
                break; // no claim passes it, however light: first come, first served
            }
            let token = next();
            claim.token = Some(token);
            granted.push((claim.id, token));
        }
        granted
    }

    /// Each claim, and whether it is held: it has a token, or it fits.
    fn each(&self) -> impl Iterator<Item = (&Claim, bool)> {
        let mut sum = 0;
        self.claims.iter().map(move |claim| {
            sum += u64::from(claim.weight.get());
            (claim, claim.token.is_some() || fit(sum, self.capacity))
        })
    }
}

/// Whether this much weight fits the capacity.
fn fit(sum: u64, capacity: Weight) -> bool {
    sum <= u64::from(capacity.get()) + u64::from(seeded!("fit_off_by_one"))
}
