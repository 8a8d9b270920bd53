//! The data of a line's node: the capacity that a resize gave to the claims in line.

use tidelock_core::Weight;

use crate::nodes::is_before;

/// A capacity that was written down. Sequences are compared by difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resized {
    pub(crate) capacity: Weight,
    /// The capacity applies to all claims before this sequence.
    pub(crate) before: i32,
    /// All claims before this sequence have their turn, even if they do not fit any more.
    pub(crate) held: i32,
}

impl Resized {
    /// None: these data are not ours.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(data).ok()?.split(' ');
        let mut word = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let capacity = Weight::new(word("capacity")?.parse().ok()?)?;
        Some(Self { capacity, before: word("before")?.parse().ok()?, held: word("held")?.parse().ok()? })
    }

    /// This capacity replaces `other`, which may come from a later list. Claims that are in `other` and not in this
    /// have come meanwhile, so the later bounds are kept.
    pub(crate) fn with_all_of(self, other: &Self) -> Self {
        let later = |one: i32, other: i32| if is_before(one, other) { other } else { one };
        let (before, held) = (later(self.before, other.before), later(self.held, other.held));
        Self { capacity: self.capacity, before, held }
    }

    pub(crate) fn text(&self) -> String {
        format!("capacity={} before={} held={}", self.capacity, self.before, self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_over_loses_nobody_who_came_meanwhile() {
        let resized = |before: i32, held: i32| Resized { capacity: Weight::ONE, before, held };
        assert_eq!(resized(5, 3).with_all_of(&resized(7, 2)), resized(7, 3));
        assert_eq!(resized(i32::MIN, 3).with_all_of(&resized(i32::MAX, 4)), resized(i32::MIN, 4));
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let resized = Resized { capacity: Weight::ONE, before: -7, held: i32::MAX };
        assert_eq!(Resized::parse(resized.text().as_bytes()), Some(resized));
        for other in ["", "capacity=0 before=1 held=1", "127.0.0.1", "capacity=1 before=1"] {
            assert_eq!(Resized::parse(other.as_bytes()), None, "{other}");
        }
    }
}
