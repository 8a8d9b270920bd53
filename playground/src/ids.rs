//! Which of the model's ids a client's sessions and claims have.

use tidelock_model::{ClaimId, SessionId};

/// A client's session: the model's number for it.
pub(crate) fn session(who: u16, number: u32) -> SessionId {
    SessionId::from_bits(u64::from(number) << 16 | u64::from(who))
}

/// Whose session this is.
pub(crate) const fn owner(session: SessionId) -> u16 {
    (session.get() & 0xffff) as u16
}

/// A claim: its number tells the slot, too.
pub(crate) fn id(who: u16, session_number: u32, claim: u32, slot: u8) -> ClaimId {
    ClaimId { session: session(who, session_number), number: u64::from(claim) << 1 | u64::from(slot) }
}
