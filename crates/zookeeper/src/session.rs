//! One client's session: a ZooKeeper session, and every claim a child of its line that is deleted when the session
//! ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight};
use tidelock_core::{ClaimId, Line, Name, Result, Token, Weight};

use crate::open_session::OpenSession;
use crate::reconnecting::Ticket;
use crate::renewing::{beat, mind};
use crate::watch::AbortOnDrop;

/// A session, and the tasks that reconnect it, renew it, and end it in time.
#[derive(Debug)]
pub(crate) struct ZooKeeperSession {
    session: Arc<OpenSession>,
    _staying: AbortOnDrop,
    _minding: AbortOnDrop,
    _beating: AbortOnDrop,
}

impl ZooKeeperSession {
    pub(crate) fn new(session: OpenSession, ticket: Ticket) -> Self {
        let session = Arc::new(session);
        let staying = session.runtime.spawn(session.clone().stay(ticket)).abort_handle();
        let minding = session.runtime.spawn(mind(session.clone())).abort_handle();
        let beating = session.runtime.spawn(beat(session.clone())).abort_handle();
        Self {
            session,
            _staying: AbortOnDrop(staying),
            _minding: AbortOnDrop(minding),
            _beating: AbortOnDrop(beating),
        }
    }
}

#[async_trait]
impl Session for ZooKeeperSession {
    fn ttl(&self) -> Duration {
        self.session.lease.ttl
    }

    /// A client has one connection, whatever the ensemble, and everything on it stalls together.
    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.session.join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.session.look_for(name, waiting).await
    }

    /// Nothing to do here. The server refuses a request that was given up with its connection, because the session has
    /// moved. And a line that has shrunk does not show which claims have lost their turn.
    async fn not_held(&self, _: &Name, _: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        Ok(Vec::new())
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if how == Leave::Void && id.session == self.session.id {
            self.session.own_claims.make_void(id, self.session.clock.now(), self.session.lease.ttl * 2);
        }
        self.session.clone().leave(name.clone(), id)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.session.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.session.resize(name, from, to).await
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.session.renew(standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.session.inspect(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.session.names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.session.end().await;
        Ok(())
    }
}
