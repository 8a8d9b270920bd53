//! A request to join a line.

use crate::{ClaimId, Kind, Patience, Weight};

/// A request to join a line: the claim, and the kind and capacity of the line if this claim is its first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Join<N> {
    /// Which line.
    pub name: N,
    /// The claim that joins. If it stands in the line already, the join only reports its place.
    pub id: ClaimId,
    /// The kind of lock; refused if the name is in use as another kind.
    pub kind: Kind,
    /// How much of the capacity the claim takes; refused if that exceeds the whole capacity.
    pub weight: Weight,
    /// The capacity of the line if it is empty; otherwise the line keeps its own.
    pub capacity: Weight,
    /// Whether the claim may wait.
    pub patience: Patience,
}
