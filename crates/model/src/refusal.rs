//! Why an operation was refused. Whatever is refused has changed nothing.

use crate::{ClaimId, Kind, Weight};

/// Why an operation was refused. Whatever is refused has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A join of a session that is not open: it ended, or never was.
    SessionOver,
    /// A join that arrived after its own [`Leave::Void`](crate::Leave::Void).
    Void,
    /// The name is in use as this kind.
    Kind(Kind),
    /// The join wants more than this, which is all there is.
    TooHeavy(Weight),
    /// The join had no patience and it is not its turn.
    Busy,
    /// A resize of a line that nobody stands in.
    NoLine,
    /// A resize from another capacity than this one, which the line has.
    Capacity(Weight),
    /// A resize after which this waiting claim could never be held.
    Strands(ClaimId),
    /// A lightening to more than this, which the claim weighs.
    Heavier(Weight),
}
