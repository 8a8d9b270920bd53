//! The operations on a [`World`](crate::World). The passing of time is one of them.

use alloc::vec::Vec;

use crate::{ClaimId, Join, Leave, SessionId, Weight};

/// One operation on a [`World`](crate::World).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op<N> {
    /// Opens a session that lives for `ttl` after each renewal (zero counts as one). If it is open, renews it.
    Open {
        /// Which session.
        session: SessionId,
        /// How long it lives without a renewal.
        ttl: u64,
    },
    /// Restarts the session's lifetime.
    Renew(SessionId),
    /// Ends the session now; its claims leave their lines.
    Close(SessionId),
    /// Lets time pass. Sessions whose lifetime is over end, all of them before any claim is granted.
    Pass(u64),
    /// Ends the lifetimes of these claims alone, all of them before any claim is granted, and forgets that their
    /// joins were void. For stores in which a session's claims do not live and die together.
    Lapse {
        /// In which line.
        name: N,
        /// Which claims.
        ids: Vec<ClaimId>,
    },
    /// Joins a line at the tail. No other operation creates a line.
    Join(Join<N>),
    /// Asks where a claim stands. Changes nothing.
    Look {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
    },
    /// Takes one claim out of the line, wherever it stands: a leave by its own client, or an eviction by an operator.
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
        /// Its new weight.
        weight: Weight,
    },
    /// Changes the capacity of a semaphore's line, if it is `from` now.
    Resize {
        /// Which line.
        name: N,
        /// The capacity that the caller expects.
        from: Weight,
        /// The new capacity.
        to: Weight,
    },
}
