//! An ear between a client and the real backend.
//!
//! The record has to know on whose behalf a join is sent, and which requests are under way.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Layered, Patience, Place, Session, Sight, Signals};
use tidelock_core::{ClaimId, Name, Options, Result, SessionId};
use tidelock_redis::Store;

use super::Servers;
use super::sitting::Sitting;
use crate::time::lock;

/// The ear of one client.
pub(super) struct Heard {
    servers: Arc<Servers>,
    client: usize,
}

impl Heard {
    /// The Redis backend of a client, over its streams.
    pub(super) fn backend(servers: Arc<Servers>, client: usize) -> Layered {
        let network = servers.clone();
        let connect = move |host: String, port: u16| network.clone().dial(client, host, port);
        let store = Store::open(&servers.url()).expect("the URL is a good one");
        let store = store.connector(connect).expect("the URL has no TLS").connection_for_each_runtime(false);
        Layered::new(Arc::new(store), Arc::new(Self { servers, client }))
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heard({})", self.client)
    }
}

#[async_trait]
impl Layer for Heard {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let session = to.open(id, options, signals).await?;
        let of: Weak<dyn Session> = Arc::downgrade(&session);
        lock(&self.servers.sessions).push(Sitting { id, client: self.client, session: of });
        Ok(session)
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.servers.record.joins(claim.id, claim.name.as_str());
        let _request = self.servers.record.asks(self.client, &claim.name);
        let place = to.join(claim, patience).await?;
        self.servers.record.hears(claim.id, &place);
        Ok(place)
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let _request = self.servers.record.asks(self.client, name);
        to.look(name, waiting).await
    }
}
