//! For what servers are started.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// To be measured, or for a user.
    Long,
    /// For some minutes of tests: what takes its time to become fast never does, and nothing has to outlast a power failure.
    Short,
}
