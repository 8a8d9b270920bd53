//! How a claim leaves its line. A leave is exact: it removes the claim it names, wherever that stands, and no other.
//! A repeated leave finds nothing.

/// How a claim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// The join's outcome is known.
    Done,
    /// The join's outcome is unknown: if the join arrives later, it is refused.
    Void,
}
