//! How long a join is willing to wait: not at all, or for its turn.

/// Whether a join may stand in line or must be held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Held at once, or refused and gone from the line.
    Now,
    /// Waits its turn.
    Wait,
}
