//! Leaving a line. A leave is exact: it takes out the claim it names, wherever that stands, and no other; repeated,
//! it finds nothing.

/// How a claim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// The join's outcome is known.
    Done,
    /// The join's outcome is unknown: should it arrive later, it is refused.
    Void,
}
