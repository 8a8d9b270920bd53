//! What a client watches for its first claim that waits in a line.

use tidelock_core::ClaimId;
use tokio::task::AbortHandle;

use crate::nodes::Node;

/// The one thing that is worth waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One of our own claims.
    Own(u64),
    /// The node of another client's claim.
    Node(String),
    /// The line: any claim that comes or goes.
    Line,
}

impl Target {
    /// The other client's claim to which the node belongs.
    pub(crate) fn claim(&self) -> Option<ClaimId> {
        match self {
            Self::Node(node) => Node::parse(node).map(|node| node.id),
            Self::Own(_) | Self::Line => None,
        }
    }
}

/// A task. Dropping this ends the task and its watch.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
