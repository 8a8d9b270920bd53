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

    /// The token of the next grant, if this one is passed on inside its process; `None` when it was passed on 31 times
    /// already. It is less than the next token of the store.
    ///
    /// ```
    /// # use tidelock_model::Token;
    /// let first = Token::from_order(7).expect("a small order");
    /// let all: Vec<_> = std::iter::successors(Some(first), |token| token.next_pass()).collect();
    /// assert_eq!(all.len(), 32);
    /// assert!(all.is_sorted() && all.last() < Token::from_order(8).as_ref());
    /// ```
    #[must_use]
    pub const fn next_pass(self) -> Option<Self> {
        let next = Self(self.0 + 1);
        if next.store_order() == self.store_order() { Some(next) } else { None }
    }

    /// How often the store's grant was passed on before, inside its process.
    #[must_use]
    pub const fn pass(self) -> u32 {
        (self.0 & ((1 << PASS_BITS) - 1)) as u32
    }

    /// The number to send to the resource and to store there.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The same number for a signed column, as SQL's `BIGINT` is. It cannot fail: a token is below 2^53, and an `i64`
    /// has room up to 2^63. So the order of tokens is the same in such a column.
    ///
    /// ```
    /// # use tidelock_model::Token;
    /// let token = Token::from_order(7).expect("a small order");
    /// assert_eq!(token.as_i64(), 7 << 5);
    /// assert_eq!(u64::try_from(token.as_i64()).ok().and_then(Token::from_u64), Some(token)); // and back
    /// ```
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
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

/// As a number.
#[cfg(feature = "serde")]
impl serde::Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

/// From a number. One that is too large for a token is refused.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let token = u64::deserialize(from)?;
        let too_large =
            || serde::de::Error::custom(format_args!("a token is below 2^53, and {token} is not"));
        Self::from_u64(token).ok_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_token_is_the_same_number_in_a_signed_column() {
        let greatest = Token::from_u64((1 << 53) - 1).expect("the greatest token");
        assert_eq!(u64::try_from(greatest.as_i64()), Ok(greatest.get()));
        assert_eq!(Token::from_u64(1 << 53), None);
    }
}
