//! Why an operation was refused. A refused operation changes nothing.

use crate::{ClaimId, Kind, Weight};

/// Why an operation was refused. A refused operation changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A join by a session that is not open: it has ended, or was never opened.
    SessionOver,
    /// A join that arrived after its own [`Leave::Void`](crate::Leave::Void).
    Void,
    /// The name is in use as this kind.
    Kind(Kind),
    /// The join's weight exceeds the capacity, which is this.
    TooHeavy(Weight),
    /// The join has no patience and would have to wait.
    Busy,
    /// A resize of an empty line.
    NoLine,
    /// A resize that expects another capacity; the line's is this.
    Capacity(Weight),
    /// A resize after which this waiting claim could never be held.
    Strands(ClaimId),
    /// A lighten to more than the claim's weight, which is this.
    Heavier(Weight),
}
