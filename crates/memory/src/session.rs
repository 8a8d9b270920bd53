//! One client's session: each call is one request to the store, done at its first poll unless a fault delays it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight};
use tidelock_core::{ClaimId, Line, Name, Result, SessionId, Weight};

use crate::state::StoreState;

#[derive(Debug)]
pub(crate) struct MemorySession {
    pub(crate) store: Arc<StoreState>,
    pub(crate) id: SessionId,
    pub(crate) ttl: Duration,
}

#[async_trait]
impl Session for MemorySession {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.store.request(|table| table.join(claim, patience)).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.store.request(|table| table.look(self.id, name, waiting)).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.store.request_now(|table| table.leave(self.id, name, id, how))
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.store.request(|table| table.lighten(claim, weight)).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.store.request(|table| table.resize(self.id, name, from, to)).await
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let sent = self.store.now(); // before the request, although the store counts from its arrival
        let mut renewal = self.store.request(|table| table.renew(self.id, standing)).await?;
        renewal.until = renewal.until.min(sent + self.ttl);
        Ok(renewal)
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.store.request(|table| table.line(self.id, name)).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.store.request(|table| table.names(self.id, prefix, after)).await
    }

    async fn close(&self) -> Result<()> {
        self.store.request(|table| table.close(self.id)).await
    }
}
