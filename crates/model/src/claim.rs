//! One place in a line.

use crate::{ClaimId, Token, Weight};

/// One place in a [`Line`](crate::Line).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its id.
    pub id: ClaimId,
    /// How much of the capacity it takes.
    pub weight: Weight,
    /// When it came: the store's own order (a revision, a transaction id), in the unit of
    /// [`Line::shrunk_at`](crate::Line::shrunk_at).
    pub order: u64,
    /// Its token, if it is held.
    pub token: Option<Token>,
}
