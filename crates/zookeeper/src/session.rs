//! One client's session: a ZooKeeper session, and every claim a child of its line that is deleted when the session
//! ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight};
use tidelock_core::{ClaimId, Line, Name, Result, Token, Weight};

use crate::desk::Desk;
use crate::reconnecting::Ticket;
use crate::renewing::{beat, mind};
use crate::watch::Task;

/// A session, and the tasks that reconnect it, renew it, and end it in time.
#[derive(Debug)]
pub(crate) struct ZooKeeperSession {
    desk: Arc<Desk>,
    _staying: Task,
    _minding: Task,
    _beating: Task,
}

impl ZooKeeperSession {
    pub(crate) fn new(desk: Desk, ticket: Ticket) -> Self {
        let desk = Arc::new(desk);
        let staying = desk.runtime.spawn(desk.clone().stay(ticket)).abort_handle();
        let minding = desk.runtime.spawn(mind(desk.clone())).abort_handle();
        let beating = desk.runtime.spawn(beat(desk.clone())).abort_handle();
        Self { desk, _staying: Task(staying), _minding: Task(minding), _beating: Task(beating) }
    }
}

#[async_trait]
impl Session for ZooKeeperSession {
    fn ttl(&self) -> Duration {
        self.desk.lease.ttl
    }

    /// A client has one connection, whatever the ensemble, and everything on it stalls together.
    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.desk.join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.desk.look_for(name, waiting).await
    }

    /// Nothing to do here. The server refuses a request that was given up with its connection, because the session has
    /// moved. And a line that has shrunk does not show which claims have lost their turn.
    async fn not_held(&self, _: &Name, _: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        Ok(Vec::new())
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if how == Leave::Void && id.session == self.desk.id {
            self.desk.books.make_void(id, self.desk.clock.now(), self.desk.lease.ttl * 2);
        }
        self.desk.clone().leave(name.clone(), id)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.desk.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.desk.resize(name, from, to).await
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.desk.renew(standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.desk.inspect(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.desk.names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.desk.end().await;
        Ok(())
    }
}
