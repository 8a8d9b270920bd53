//! How long a join is willing to wait: not at all, or for its turn.

/// Whether a join may wait or must be held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Held at once, or refused; a refused claim does not stay in line.
    Now,
    /// Waits for its turn.
    Wait,
}
