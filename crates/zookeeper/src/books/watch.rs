//! What is watched for the first claim of a client's that waits in a line.

use tokio::task::AbortHandle;

/// The one thing that is worth waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A claim of our own.
    Own(u64),
    /// The node of somebody else's.
    Node(String),
    /// Anyone's coming and going.
    Line,
}

/// A task that ends with this, and its watch with it.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
