//! The fencing token: the store's own order, and low bits for grants that are passed on inside one process.

use core::fmt;

/// How many low bits of a token are reserved for grants that one process passes on by itself.
const PASS_BITS: u32 = 5;

/// The fencing token of a grant: of two conflicting grants of a name, the later has the greater token.
///
/// Always below 2^53, so JSON, JavaScript and Lua represent it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The greatest store order that a token can hold: 48 bits.
    pub const MAX_ORDER: u64 = (1 << 48) - 1;

    /// The token of a grant that the store gave at `order`; `None` when the order needs more than 48 bits.
    #[must_use]
    pub const fn from_order(order: u64) -> Option<Self> {
        if order > Self::MAX_ORDER { None } else { Some(Self(order << PASS_BITS)) }
    }

    /// The token of a plain number that was read back; `None` at 2^53 and beyond.
    #[must_use]
    pub const fn from_u64(token: u64) -> Option<Self> {
        if token >> PASS_BITS > Self::MAX_ORDER { None } else { Some(Self(token)) }
    }

    /// The number to send to the resource and to store there.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The order that the store gave this grant: for example, etcd's revision.
    #[must_use]
    pub const fn store_order(self) -> u64 {
        self.0 >> PASS_BITS
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.0)
    }
}
