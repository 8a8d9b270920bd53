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
    /// The term of the member that passed it on, before it did.
    pub(crate) term: u64,
}

impl KeptAlive {
    pub(crate) fn of(sent: Moment, answer: &LeaseKeepAliveResponse) -> Self {
        Self { sent, term: answer.header().map_or(0, ResponseHeader::raft_term) }
    }

    /// Whether it counts, after a read in this term that was asked for later. 0: an answer did not tell its term.
    pub(crate) fn is_proved_in(self, term: u64) -> bool {
        term != 0 && self.term == term
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A balancer may send the read to another member than the keep-alive.
    #[test]
    fn a_read_in_the_same_term_proves_a_keep_alive_whoever_reads() {
        let kept = KeptAlive { sent: Moment::START, term: 7 };
        assert!(kept.is_proved_in(7) && !kept.is_proved_in(8) && !kept.is_proved_in(6));
        assert!(!KeptAlive { term: 0, ..kept }.is_proved_in(0));
    }
}
