//! Claims, in the words of every store.

use tidelock_model::{Claim, ClaimId, Line, Token};

use crate::client::name as client;
use crate::ids::owner;

/// Whose claim this is.
pub(super) fn whose(claim: &Claim) -> String {
    client(owner(claim.id.session))
}

/// A claim's id, with its client for the session.
pub(super) fn id(id: ClaimId) -> String {
    format!("{}-{}", client(owner(id.session)), id.number)
}

pub(super) fn order(token: Option<Token>) -> u64 {
    token.map_or(0, Token::store_order)
}

/// The holders, and those who wait.
pub(super) fn divided(line: &Line) -> (Vec<&Claim>, Vec<&Claim>) {
    line.claims.iter().partition(|claim| claim.token.is_some())
}
