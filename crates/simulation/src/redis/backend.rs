//! The backend that a client sees: the real one, with an ear on its joins.
//!
//! The record has to know on whose behalf a join is sent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Clock, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight, Signals,
};
use tidelock_core::{ClaimId, Line, Name, Options, Result, SessionId, Weight};
use tidelock_redis::Store;

use super::Servers;
use super::sitting::Sitting;
use crate::time::{ClientClock, lock};

/// A client's backend.
pub(super) struct Heard {
    servers: Arc<Servers>,
    store: Store,
    client: usize,
    clock: Arc<ClientClock>,
}

impl Heard {
    pub(super) fn new(servers: &Arc<Servers>, client: usize) -> Self {
        let network = servers.clone();
        let connect = move |host: String, port: u16| network.clone().dial(client, host, port);
        let store = Store::open(&servers.url()).expect("the URL is a good one");
        let store = store.connector(connect).expect("the URL has no TLS").connection_for_each_runtime(false);
        Self { servers: servers.clone(), store, client, clock: servers.clocks[client].clone() }
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heard({:?})", self.store)
    }
}

#[async_trait]
impl Backend for Heard {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn store(&self) -> &str {
        self.store.store()
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let inner = Backend::open(&self.store, id, options, signals).await?;
        let servers = self.servers.clone();
        let sitting = Arc::new(Sitting { id, client: self.client });
        lock(&self.servers.sessions).push(Arc::downgrade(&sitting));
        Ok(Arc::new(HeardSession { servers, inner, sitting }))
    }
}

/// A client's session.
struct HeardSession {
    servers: Arc<Servers>,
    inner: Arc<dyn Session>,
    sitting: Arc<Sitting>,
}

impl fmt::Debug for HeardSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeardSession({})", self.sitting.id)
    }
}

#[async_trait]
impl Session for HeardSession {
    fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    fn shard(&self, name: &Name) -> Shard {
        self.inner.shard(name)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.servers.record.joins(claim.id, claim.name.as_str());
        let _request = self.servers.record.asks(self.sitting.client, &claim.name);
        let place = self.inner.join(claim, patience).await?;
        self.servers.record.hears(claim.id, &place);
        Ok(place)
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let _request = self.servers.record.asks(self.sitting.client, name);
        self.inner.look(name, waiting).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.inner.leave(name, id, how)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.inner.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.inner.resize(name, from, to).await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.inner.renew(shard, standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.inner.line(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.inner.names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
