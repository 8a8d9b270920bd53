//! What can be done to a [`World`](crate::World): one operation at a time, time itself included.

use alloc::vec::Vec;

use crate::{ClaimId, Join, Leave, SessionId, Weight};

/// One operation on a [`World`](crate::World).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op<N> {
    /// Opens a session that lives for `ttl` after each renewal (zero counts as one). Opened again, it is renewed.
    Open {
        /// Whose.
        session: SessionId,
        /// How long it lives without a renewal.
        ttl: u64,
    },
    /// Starts the session's lifetime anew.
    Renew(SessionId),
    /// Ends the session now; its claims leave their lines.
    Close(SessionId),
    /// Lets time pass. Sessions whose lifetime is over end, all of them before anyone is granted.
    Pass(u64),
    /// Ends the lifetimes of these claims alone, all of them before anyone is granted, and forgets that their joins
    /// were void: for stores in which claims do not live and die with a session as a whole.
    Lapse {
        /// In which line.
        name: N,
        /// Which claims.
        ids: Vec<ClaimId>,
    },
    /// Stands in line, at the tail. The only operation that creates a line.
    Join(Join<N>),
    /// Asks where a claim stands. Changes nothing.
    Look {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
    },
    /// Takes one claim out of the line, wherever it stands: its own client's wish, or an operator's eviction.
    Leave {
        /// From which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// Whether the outcome of its join is known.
        how: Leave,
    },
    /// Makes a claim lighter. It keeps its place and its token.
    Lighten {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// What it weighs from now on.
        weight: Weight,
    },
    /// Changes the capacity of a semaphore's line, if it is `from` now.
    Resize {
        /// Which line.
        name: N,
        /// What the caller believes the capacity to be.
        from: Weight,
        /// What it shall be.
        to: Weight,
    },
}
