//! What is between the clients of a world and their lines: a network before the memory backend, or servers that speak a
//! store's protocol.

use std::fmt::Debug;
use std::sync::Arc;

use tidelock_core::backend::{Backend, Moment};

use crate::network::Network;
use crate::plan::{Fault, Plan, Stores};
use crate::record::Record;
use crate::redis::Servers;
use crate::time::{ClientClock, Time};

pub(crate) trait Medium: Debug + Send + Sync {
    /// The backend of one client.
    fn backend(self: Arc<Self>, client: usize) -> Arc<dyn Backend>;

    fn clock(&self, client: usize) -> Arc<ClientClock>;

    /// A fault begins, and lasts until then.
    fn begin(self: Arc<Self>, number: usize, fault: &Fault, until: Moment);

    /// A fault is over.
    fn end(self: Arc<Self>, number: usize);

    /// What the store still has: names, and the number of sessions.
    fn left(&self) -> (Vec<String>, usize);

    /// Whether any client still has a session.
    fn has_sessions(&self) -> bool;
}

/// What a plan's clients are served by.
pub(crate) fn of(plan: &Plan, time: &Arc<Time>, record: &Arc<Record>) -> Arc<dyn Medium> {
    match plan.stores {
        Stores::Memory => Network::new(plan, time, record),
        _ => Servers::new(plan, time, record),
    }
}
