//! An open session: the state that all its operations share.

use std::fmt;
use std::sync::Arc;

use tidelock_core::backend::{Batcher, Clock, Signals};
use tidelock_core::{Error, SessionId};
use tokio::runtime::Handle;
use zookeeper_client::Error as Said;

use crate::joins::Joins;
use crate::lease::Lease;
use crate::link::Link;
use crate::nodes::Nodes;
use crate::own_claims::OwnClaims;
use crate::request::Request;
use crate::searches::Searches;
use crate::server_time::ServerTime;
use crate::trouble;

/// The state that all operations of one session share.
pub(crate) struct OpenSession {
    pub(crate) id: SessionId,
    pub(crate) label: Arc<str>,
    pub(crate) nodes: Nodes,
    pub(crate) link: Link,
    pub(crate) lease: Lease,
    pub(crate) own_claims: OwnClaims,
    pub(crate) batcher: Batcher<Request>,
    pub(crate) searches: Searches,
    pub(crate) joins: Joins,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) server_time: ServerTime,
    /// The keeper's runtime: the tasks that watch run there.
    pub(crate) runtime: Handle,
}

impl OpenSession {
    pub(crate) fn trouble(&self, error: &Said) -> Error {
        trouble::from(error, &self.link.place)
    }
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} at {}", self.id, self.link.place)
    }
}
