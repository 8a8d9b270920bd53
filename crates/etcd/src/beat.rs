//! The stream of a session's keep-alives, and what is known of the last one.

use std::sync::Arc;

use etcd_client::{LeaseKeepAliveResponse, LeaseKeepAliveStream, LeaseKeeper, ResponseHeader};
use tidelock_core::backend::Moment;

use crate::link::Connection;

/// A session's keep-alives.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    pub(crate) beat: Option<Beat>,
    /// The last one that was answered, until it is known what it was worth.
    pub(crate) unproved: Option<KeptAlive>,
}

/// A keep-alive that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptAlive {
    pub(crate) sent: Moment,
    /// The member that passed it on, and the term in which it did.
    pub(crate) by: (u64, u64),
}

impl KeptAlive {
    pub(crate) fn of(sent: Moment, answer: &LeaseKeepAliveResponse) -> Self {
        Self { sent, by: answer.header().map(seat).unwrap_or_default() }
    }
}

/// The member that answered, and its term.
pub(crate) fn seat(header: &ResponseHeader) -> (u64, u64) {
    (header.member_id(), header.raft_term())
}

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
