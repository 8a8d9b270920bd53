//! The stream of a session's keep-alives.

use std::sync::Arc;

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};

use crate::link::Connection;

/// The stream of keep-alives on one connection.
pub(crate) struct Beat {
    pub(crate) keeper: LeaseKeeper,
    pub(crate) answers: LeaseKeepAliveStream,
    pub(crate) on: Arc<Connection>,
}

impl std::fmt::Debug for Beat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beat")
    }
}
