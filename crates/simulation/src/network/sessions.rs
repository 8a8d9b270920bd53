//! The sessions that a client's session has in the shards of the store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidelock_core::backend::{Session, Signals};
use tidelock_core::{ClaimId, Options, SessionId};

use crate::time::lock;

/// The sessions of one client's session: one in each shard.
pub(super) struct Sessions {
    pub(super) id: SessionId,
    pub(super) options: Options,
    pub(super) signals: Arc<dyn Signals>,
    pub(super) in_shards: Vec<Mutex<InShard>>,
}

#[derive(Default)]
pub(super) struct InShard {
    pub(super) session: Option<Arc<dyn Session>>,
    /// Claims whose leave has come, and those that must not join any more.
    pub(super) left: BTreeSet<ClaimId>,
    pub(super) void: BTreeSet<ClaimId>,
}

impl Sessions {
    pub(super) fn in_shard(&self, shard: u32) -> Option<Arc<dyn Session>> {
        lock(&self.in_shards[shard as usize]).session.clone()
    }
}
