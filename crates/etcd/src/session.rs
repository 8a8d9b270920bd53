//! One client's session: a lease, with every claim's keys on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Leave, Left, Numbered, Patience, Place, Renewal, Reply, Session, Shard, Sight,
};
use tidelock_core::{ClaimId, Error, ErrorKind, Line, Name, Result, Weight};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::link::patiently;
use crate::open_session::OpenSession;
use crate::own_claims::Command;
use crate::slot_in_use::SlotInUse;
use crate::watching::{AbortOnDrop, watch};

/// A session, and the tasks that watch for it.
#[derive(Debug)]
pub(crate) struct EtcdSession {
    session: Arc<OpenSession>,
    /// For its lines, and for its end.
    watching: [AbortOnDrop; 2],
}

impl EtcdSession {
    pub(crate) fn new(session: OpenSession, commands: UnboundedReceiver<Command>) -> Self {
        let session = Arc::new(session);
        let lines = session.runtime.spawn(watch(session.clone(), commands)).abort_handle();
        let end = session.runtime.spawn(session.clone().tell_the_end()).abort_handle();
        session.runtime.spawn(session.clone().warm_up());
        Self { session, watching: [lines, end].map(AbortOnDrop) }
    }
}

impl Drop for EtcdSession {
    fn drop(&mut self) {
        self.session.link.close();
        self.session.own_claims.close();
    }
}

#[async_trait]
impl Session for EtcdSession {
    fn ttl(&self) -> Duration {
        self.session.lease.ttl
    }

    /// A client uses one member at a time, and everything on it stalls together.
    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    fn number(&self, name: &Name, fresh: u64) -> Numbered {
        SlotInUse::take(&self.session, name, fresh)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.session.join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.session.look_for(name, waiting).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.session.clone().leave(name.clone(), id, how)
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

    /// Revokes the lease, and all keys with it.
    async fn close(&self) -> Result<()> {
        self.session.own_claims.close();
        let [_, end] = &self.watching;
        end.0.abort(); // this end is no news
        let (id, link) = (self.session.lease_id(), &self.session.link);
        // It may be sent on a connection that carries nothing any more.
        let revoke = || async {
            let revoked = link.ask(|client| async move { client.lease_client().revoke(id).await });
            revoked.await.map_err(Error::from)
        };
        let revoked = patiently(self.session.clock.now() + link.deadline(), revoke).await;
        match revoked {
            Err(error) if error.kind() != ErrorKind::Lost => Err(error),
            _ => {
                link.close();
                Ok(())
            }
        }
    }
}
