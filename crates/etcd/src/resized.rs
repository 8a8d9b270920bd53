//! What a resize writes: the capacity of all claims that stood in the line then.
//!
//! It is written once for each session that has claims there, on that session's lease: so it stands as long as any claim
//! that it is about, and nobody has to clean up after a client that died.

use tidelock_core::Weight;

/// A capacity that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resized {
    pub(crate) capacity: Weight,
    /// The capacity is that of all claims created before this revision.
    pub(crate) before: u64,
    /// All claims created before this revision have their turn, even if they do not fit any more.
    pub(crate) let_in: u64,
}

impl Resized {
    /// None: this value is not ours.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let mut word = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let capacity = Weight::new(word("capacity")?.parse().ok()?)?;
        Some(Self { capacity, before: word("before")?.parse().ok()?, let_in: word("held")?.parse().ok()? })
    }

    pub(crate) fn text(self) -> String {
        format!("capacity={} before={} held={}", self.capacity, self.before, self.let_in)
    }

    pub(crate) fn shown(self) -> tidelock_model::Resized {
        let Self { capacity, before, let_in } = self;
        tidelock_model::Resized { capacity, before, let_in }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let resized = Resized { capacity: Weight::ONE, before: 7, let_in: 3 };
        assert_eq!(Resized::parse(resized.text().as_bytes()), Some(resized));
        for other in ["", "capacity=0 before=1 held=1", "127.0.0.1", "capacity=1 before=1"] {
            assert_eq!(Resized::parse(other.as_bytes()), None, "{other}");
        }
    }
}
