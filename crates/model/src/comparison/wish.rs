//! What a client asks of a store, as a comparison has drawn it.

use alloc::vec::Vec;

use crate::{ClaimId, Join, Leave, SessionId, Weight};

/// What is to be asked of the store, on one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish<N> {
    /// Stands in line: for the first time, again since no reply came, or late.
    Join(Join<N>),
    /// One client asks where these claims of its own stand.
    Look {
        /// In which line.
        name: N,
        /// Whose they are.
        session: SessionId,
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// Takes a claim out of the line.
    Leave {
        /// Who asks for it: the claim's own client, or one that evicts it.
        by: SessionId,
        /// From which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// Whether the outcome of its join is known.
        how: Leave,
    },
    /// Makes a claim that is held lighter.
    Lighten {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// What it weighs from now on.
        weight: Weight,
    },
    /// Changes the capacity of a semaphore.
    Resize {
        /// Who asks for it.
        by: SessionId,
        /// Which line.
        name: N,
        /// What it is believed to be.
        from: Weight,
        /// What it shall be.
        to: Weight,
    },
    /// Renews what one client has on one name.
    Renew {
        /// Whose claims.
        session: SessionId,
        /// On which name.
        name: N,
    },
    /// Has the store lose a part of what it knows of this name, as it would by an eviction: which part is up to the
    /// store. Only drawn for stores that can.
    Lose {
        /// Of which name.
        name: N,
        /// Any number.
        part: u64,
    },
}

impl<N> Wish<N> {
    /// The name that it is about.
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
