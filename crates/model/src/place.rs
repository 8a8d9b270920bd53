//! Where a claim stands in a line that is shown: held, when it and everyone ahead of it fit, all of them of one type.
//!
//! This is for stores that show their line and keep no mark of who was granted (etcd, ZooKeeper). Held is sticky, and
//! only the holder itself remembers it: once told, it need not ask again, or says so in [`ShownClaim::token`]. A claim
//! that fitted, but did not look before the capacity became smaller, just goes on waiting; nobody behind it can be
//! told "held" before it, for a sum only grows towards the tail.
//!
//! [`ShownClaim::token`]: crate::ShownClaim::token

use alloc::vec::Vec;

use crate::{ClaimId, Kind, ShownClaim, ShownLine, Weight};

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is its turn, and stays so until it leaves.
    Held,
    /// Someone ahead must go first, or be lightened, or the capacity must grow.
    Waiting,
    /// The semaphore is in use in this other size: it should leave, and stand in line anew as one of that size, as long
    /// as the one that stands first does. Until then it waits for all who stand ahead.
    AnotherSize(Weight),
    /// The name is in use as this other kind, and nobody of its own stands ahead. If it has just come it should leave,
    /// and say so; if it waits already it goes on waiting for all who stand ahead.
    AnotherKind(Kind),
    /// It alone outweighs its capacity: it did not look between its turn and a resize. It should leave, and say so.
    Stranded,
    /// It does not stand here.
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
/// assert_eq!(place(&line, id(2)), Place::Held); // readers who stand together enter together
/// assert_eq!(place(&line, id(3)), Place::Waiting); // the writer waits for them
/// assert_eq!(place(&line, id(4)), Place::Waiting); // and nobody passes it
/// assert_eq!(place(&line, id(5)), Place::Absent);
///
/// line.claims.retain(|claim| claim.id.number > 1);
/// (line.claims[0].kind, line.claims[0].declared) = (Kind::Mutex, Weight::ONE);
/// assert_eq!(place(&line, id(3)), Place::AnotherKind(Kind::Mutex)); // and not beside it
/// ```
#[must_use]
pub fn place(line: &ShownLine, me: ClaimId) -> Place {
    places(line).find(|(claim, _)| claim.id == me).map_or(Place::Absent, |(_, place)| place)
}

/// Where everyone stands in `line`, first come first.
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
