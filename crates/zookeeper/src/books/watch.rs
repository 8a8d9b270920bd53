//! What a client watches for its first claim that waits in a line.

use tokio::task::AbortHandle;

/// The one thing that is worth waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// One of our own claims.
    Own(u64),
    /// The node of another client's claim.
    Node(String),
    /// The line: any claim that comes or goes.
    Line,
}

/// A task. Dropping this ends the task and its watch.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
