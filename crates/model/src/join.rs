//! A wish to stand in line.

use crate::{ClaimId, Kind, Patience, Weight};

/// A wish to stand in line: the claim, and what the line is to be if this is its first comer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Join<N> {
    /// Which line.
    pub name: N,
    /// Who joins. Repeated with an id that stands there already, a join only says where that stands.
    pub id: ClaimId,
    /// What the name is used as; refused if it is in use as another kind.
    pub kind: Kind,
    /// How much of the capacity it wants; refused if that is more than all of it.
    pub weight: Weight,
    /// The capacity of the line, if nobody stands in it yet; otherwise the line's own counts.
    pub capacity: Weight,
    /// Whether it may wait.
    pub patience: Patience,
}
