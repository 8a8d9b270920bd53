//! The place of a claim in a shown line: it is held when it and all claims ahead of it fit, all of one type.
//!
//! For stores that show their line and keep no mark of granted claims (etcd, ZooKeeper). Held is sticky, and only the
//! holder remembers it: once told, the client need not ask again, or it says so in [`ShownClaim::token`]. A claim
//! that fitted, but did not look before the capacity became smaller, goes on waiting. No claim behind it can be told
//! "held" earlier, because sums only grow towards the tail.
//!
//! [`ShownClaim::token`]: crate::ShownClaim::token

use alloc::vec::Vec;

use crate::{ClaimId, Kind, ShownClaim, ShownLine, Weight};

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is held, and stays held until it leaves.
    Held,
    /// A claim ahead must leave or be lightened first, or the capacity must grow.
    Waiting,
    /// The semaphore is in use with this other size. The claim should leave and join again with that size, provided
    /// that the claim that is first now still stands there. Until then it waits for all claims ahead.
    AnotherSize(Weight),
    /// The name is in use as this other kind, and no claim of its own kind stands ahead. A claim that has just come
    /// should leave and report this; one that already waits goes on waiting for all claims ahead.
    AnotherKind(Kind),
    /// Its weight alone exceeds the capacity: it did not look between its turn and a resize. It should leave and
    /// report this.
    Stranded,
    /// It does not stand in this line.
    Absent,
}

/// Where `me` stands in `line`.
///
/// ```
/// use tidelock_model::{ClaimId, Kind, Place, SessionId, ShownClaim, ShownLine, Weight, place};
///
/// let id = |number| ClaimId { session: SessionId::from_bits(7), number };
/// let mut line = ShownLine::default();
/// for (number, weight) in [(1, Weight::ONE), (2, Weight::ONE), (3, Weight::MAX), (4, Weight::ONE)] {
///     let (kind, declared) = (Kind::RwLock, Weight::MAX);
///     line.claims.push(ShownClaim { id: id(number), kind, weight, declared, order: number, token: None });
/// }
/// assert_eq!(place(&line, id(2)), Place::Held); // readers that stand together enter together
/// assert_eq!(place(&line, id(3)), Place::Waiting); // the writer waits for them
/// assert_eq!(place(&line, id(4)), Place::Waiting); // and no claim passes it
/// assert_eq!(place(&line, id(5)), Place::Absent);
///
/// line.claims.retain(|claim| claim.id.number > 1);
/// (line.claims[0].kind, line.claims[0].declared) = (Kind::Mutex, Weight::ONE);
/// assert_eq!(place(&line, id(3)), Place::AnotherKind(Kind::Mutex)); // not held beside the mutex
/// ```
#[must_use]
pub fn place(line: &ShownLine, me: ClaimId) -> Place {
    places(line).find(|(claim, _)| claim.id == me).map_or(Place::Absent, |(_, place)| place)
}

/// The place of every claim in `line`, in order of arrival.
pub fn places(line: &ShownLine) -> impl Iterator<Item = (&ShownClaim, Place)> {
    let (mut kinds, in_use) = (Vec::new(), line.in_use());
    line.each().map(move |(claim, is_held)| {
        let is_first_of_its_kind = !kinds.contains(&claim.kind);
        if is_first_of_its_kind {
            kinds.push(claim.kind);
        }
        let (kind, size) = in_use.unwrap_or((claim.kind, claim.declared));
        let place = match () {
            () if is_held => Place::Held,
            () if kind == claim.kind && size != line.size(claim) => Place::AnotherSize(size),
            () if kind == claim.kind && claim.weight > size => Place::Stranded,
            () if kind != claim.kind && is_first_of_its_kind => Place::AnotherKind(kind),
            () => Place::Waiting,
        };
        (claim, place)
    })
}
