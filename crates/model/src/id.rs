//! Ids: a session is one client's lease, a claim is one place that it asked for in a line.

use core::fmt;
use core::str::FromStr;

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
///
/// It is written and read as a text, in serde too:
///
/// ```
/// use tidelock_model::ClaimId;
/// let id: ClaimId = "15f8c3a09be2d471-43".parse()?;
/// assert_eq!(id.number, 43);
/// assert_eq!(id.to_string(), "15f8c3a09be2d471-43");
/// # Ok::<(), tidelock_model::NoClaimId>(())
/// ```
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

/// The text is not the id of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoClaimId;

impl fmt::Display for NoClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not the id of a claim, which has 16 hexadecimal digits, a - and a number")
    }
}

impl core::error::Error for NoClaimId {}

impl FromStr for ClaimId {
    type Err = NoClaimId;

    /// Reads what [`Display`](fmt::Display) has written.
    fn from_str(text: &str) -> Result<Self, NoClaimId> {
        let (session, number) = text.split_once('-').ok_or(NoClaimId)?;
        let is_hex = session.len() == 16 && session.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
        let bits = u64::from_str_radix(session, 16).ok().filter(|bits| is_hex && *bits <= u64::MAX >> 1);
        let number = number.parse().ok().filter(|_| is_number);
        Ok(Self { session: SessionId(bits.ok_or(NoClaimId)?), number: number.ok_or(NoClaimId)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_nothing_else_is() {
        for (bits, number) in [(0, 0), (7, 1), (u64::MAX, u64::MAX)] {
            let id = ClaimId { session: SessionId::from_bits(bits), number };
            assert_eq!(std::format!("{id}").parse(), Ok(id));
        }
        for text in [
            "",
            "-",
            "7-1",
            "15f8c3a09be2d471",
            "15f8c3a09be2d471-",
            "15f8c3a09be2d471-x",
            "15f8c3a09be2d471-+1",
            "+5f8c3a09be2d471-1",
            "15f8c3a09be2d471-1-1",
            "ffffffffffffffff-1",
            "15f8c3a09be2d471-99999999999999999999",
        ] {
            assert_eq!(text.parse::<ClaimId>(), Err(NoClaimId), "{text}");
        }
    }
}
