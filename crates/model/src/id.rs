//! Ids: a session is one client's lease, a claim is one place that it asked for in a line.

use core::fmt;

/// One client's lease, which covers all of its places. The client chooses the id before any I/O.
///
/// At most 63 bits, so a store that numbers leases with a signed integer can use it unchanged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// Takes the low 63 bits of `bits`, which should be random.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & (u64::MAX >> 1))
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// One claim: the session it belongs to, and its number there. A number is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// The session it belongs to.
    pub session: SessionId,
    /// Which of that session's claims.
    pub number: u64,
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.number)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}
