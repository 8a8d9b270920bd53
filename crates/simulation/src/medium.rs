//! What is between the clients of a world and their lines: a network before the memory backend, or servers that speak a
//! store's protocol.

use std::fmt::Debug;
use std::sync::Arc;

use tidelock_core::backend::{Backend, Moment};

use crate::plan::Fault;

pub(crate) trait Medium: Debug + Send + Sync {
    /// The backend of one client.
    fn backend(self: Arc<Self>, client: usize) -> Arc<dyn Backend>;

    /// A fault begins, and lasts until then.
    fn begin(self: Arc<Self>, number: usize, fault: &Fault, until: Moment);

    /// A fault is over.
    fn end(self: Arc<Self>, number: usize);

    /// What the store still has: names, and the number of sessions.
    fn left(&self) -> (Vec<String>, usize);

    /// Whether any client still has a session.
    fn has_sessions(&self) -> bool;
}
