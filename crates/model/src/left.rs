//! What a leave found in the line.

/// What a leave found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// The claim was held.
    Held,
    /// The claim was waiting.
    Waiting,
    /// There was no such claim: it left before, or its session ended.
    Absent,
}
