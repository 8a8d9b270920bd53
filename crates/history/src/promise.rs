//! The promises that a history is checked for.

use std::fmt;

/// A promise that a history can be seen to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// Claims held together fit.
    Exclusion,
    /// No claim overtakes one that was known to wait.
    Order,
    /// A hold is passed on inside a client for no longer than it may linger.
    Passes,
    /// Of two conflicting grants the later has the greater token.
    Tokens,
    /// A resource never accepts an older token after a newer one.
    Fence,
    /// Once everything is healed, every claim is granted.
    Usable,
    /// No claim waits for long while nobody holds.
    Bounded,
    /// Clients that hold together were told the same size.
    Sizes,
    /// No client loses its hold while all is well.
    Kept,
}

impl Promise {
    /// The promise in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::Order => "order",
            Self::Passes => "passes",
            Self::Tokens => "tokens",
            Self::Fence => "fence",
            Self::Usable => "usable after healing",
            Self::Bounded => "bounded waits",
            Self::Sizes => "one size",
            Self::Kept => "kept while all is well",
        }
    }

    /// Whether a machine that is slow enough breaks it: it says how long something takes at most.
    #[must_use]
    pub const fn is_a_matter_of_time(self) -> bool {
        matches!(self, Self::Bounded | Self::Kept)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
