//! The waiters of a mutex that are in the row of its line, behind the only holder.
//!
//! One after the other, each is `SINCE.SESSION.NUMBER:`, with 16 digits for the time and 20 for the session, so that
//! statements find a waiter by its text, and the first one by its place. A line has them only while its claims are in
//! no rows of their own; when the row is full, all of them get rows.

use tidelock_core::{ClaimId, SessionId};

use crate::sql::id;

/// A row that is as long as this has no room for another waiter, which takes 60 bytes at most.
pub(crate) const ROOM: usize = 5_900;

/// A session as it is between the points of a waiter.
pub(crate) fn padded(session: SessionId) -> String {
    format!("{:020}", id(session))
}

/// What only this waiter has in a row, as a text in a statement.
pub(crate) fn text(claim: ClaimId) -> String {
    format!("'.{}.{}:'", padded(claim.session), claim.number)
}

/// The waiters in this text, in their order, and since when each waits.
pub(crate) fn read(waiters: &[u8]) -> impl Iterator<Item = (ClaimId, u64)> {
    waiters.split(|byte| *byte == b':').filter_map(|waiter| {
        let waiter = std::str::from_utf8(waiter).ok()?;
        let mut numbers = waiter.split('.').map(|number| number.parse::<u64>().ok());
        let (since, session, number) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some((ClaimId { session: SessionId::from_bits(session), number }, since))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_read_in_their_order() {
        let claim = |session, number| ClaimId { session: SessionId::from_bits(session), number };
        let row = b"1700000000000001.00000000000000000007.1:1700000000000002.18446744073709551615.42:";
        let waiters: Vec<_> = read(row).collect();
        assert_eq!(
            waiters,
            [(claim(7, 1), 1_700_000_000_000_001), (claim(u64::MAX, 42), 1_700_000_000_000_002)]
        );
        assert_eq!(read(b"").count(), 0);
        assert_eq!(read(b"1700000000000001.7:nothing:").count(), 0);
    }

    #[test]
    fn the_text_of_a_waiter_is_in_its_row() {
        let claim = ClaimId { session: SessionId::from_bits(7), number: 1 };
        assert_eq!(text(claim), "'.00000000000000000007.1:'");
        let longest = ClaimId { session: SessionId::from_bits(u64::MAX), number: u64::MAX };
        assert!(16 + text(longest).trim_matches('\'').len() < 60);
    }
}
