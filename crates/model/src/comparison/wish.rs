//! A request to a store, as drawn by a comparison.

use alloc::vec::Vec;

use crate::{ClaimId, Join, Leave, SessionId, Weight};

/// A request to the store, on one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish<N> {
    /// Joins the line: for the first time, again because no reply came, or late.
    Join(Join<N>),
    /// A client asks where these claims of its own stand.
    Look {
        /// In which line.
        name: N,
        /// Whose claims.
        session: SessionId,
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// Takes a claim out of the line.
    Leave {
        /// The session that asks: the claim's own, or one that evicts it.
        by: SessionId,
        /// From which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// Whether the outcome of its join is known.
        how: Leave,
    },
    /// Makes a held claim lighter.
    Lighten {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// Its new weight.
        weight: Weight,
    },
    /// Changes the capacity of a semaphore.
    Resize {
        /// The session that asks.
        by: SessionId,
        /// Which line.
        name: N,
        /// The capacity that the caller expects.
        from: Weight,
        /// The new capacity.
        to: Weight,
    },
    /// Renews one client's claims on one name.
    Renew {
        /// Whose claims.
        session: SessionId,
        /// On which name.
        name: N,
    },
    /// Makes the store lose some of its data about this name, as an eviction of its keys would. The store decides
    /// which. Only drawn for stores that can lose data.
    Lose {
        /// Of which name.
        name: N,
        /// Any number, by which the store chooses what to lose.
        part: u64,
    },
}

impl<N> Wish<N> {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &N {
        match self {
            Self::Join(join) => &join.name,
            Self::Look { name, .. }
            | Self::Leave { name, .. }
            | Self::Lighten { name, .. }
            | Self::Resize { name, .. }
            | Self::Renew { name, .. }
            | Self::Lose { name, .. } => name,
        }
    }
}
