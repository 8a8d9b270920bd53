//! Where a claim stands: held, when it and everyone ahead of it fit the capacity.
//!
//! This is for stores that show their line and keep no mark of who was granted (etcd, ZooKeeper). Held is sticky, and
//! only the holder itself remembers it: once told, it need not ask again, or says so in [`Claim::token`]. A claim
//! that fitted, but did not look before the capacity became smaller, just goes on waiting; nobody behind it can be
//! told "held" before it, for a sum only grows towards the tail.
//!
//! [`Claim::token`]: crate::Claim::token

use crate::{ClaimId, Line};

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is its turn, and stays so until it leaves.
    Held,
    /// Someone ahead must go first, or be lightened, or the capacity must grow.
    Waiting,
    /// It alone outweighs the capacity: it did not look between its turn and a resize. It should leave, and say so.
    Stranded,
    /// It does not stand here.
    Absent,
}

/// Where `me` stands in `line`.
///
/// ```
/// use tidelock_model::{Claim, ClaimId, Kind, Line, Place, SessionId, Weight, place};
///
/// let id = |number| ClaimId { session: SessionId::from_bits(7), number };
/// let mut line = Line::new(Kind::RwLock, Weight::MAX);
/// for (number, weight) in [(1, Weight::ONE), (2, Weight::ONE), (3, Weight::MAX), (4, Weight::ONE)] {
///     line.claims.push(Claim { id: id(number), weight, order: number, token: None });
/// }
/// assert_eq!(place(&line, id(2)), Place::Held); // readers who stand together enter together
/// assert_eq!(place(&line, id(3)), Place::Waiting); // the writer waits for them
/// assert_eq!(place(&line, id(4)), Place::Waiting); // and nobody passes it
/// assert_eq!(place(&line, id(5)), Place::Absent);
/// ```
#[must_use]
pub fn place(line: &Line, me: ClaimId) -> Place {
    if line.held().any(|claim| claim.id == me) {
        return Place::Held;
    }
    match line.claim(me) {
        Some(claim) if claim.weight > line.capacity => Place::Stranded,
        Some(_) => Place::Waiting,
        None => Place::Absent,
    }
}
