//! Grants that count only when replicas have them: [`Options::replicas`](tidelock_core::Options::replicas).
//!
//! A layer between core and a session, used only with that option. Core gets a grant only when enough replicas have
//! confirmed it. Until then core sees the claim as waiting, and renews it like any other. A grant may come in a join's
//! reply, at the end of another reply, by a push, or in a look: each passes the [`Gate`] first. `rounds` asks the
//! replicas.
//!
//! Nothing here extends a claim's deadline: it still counts from before its join or its renewal.

mod gate;
mod rounds;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight};
use tidelock_core::{ClaimId, ErrorKind, Line, Name, Options, Replicas, Result, Weight};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;

use self::gate::Worth;
pub(crate) use self::gate::{Ask, Gate};
use self::rounds::Rounds;
use crate::session::RedisSession;

/// A session whose grants wait for replicas.
#[derive(Debug)]
pub(crate) struct ReplicatedSession {
    inner: Arc<RedisSession>,
    gate: Arc<Gate>,
    rounds: AbortHandle,
}

impl ReplicatedSession {
    /// Starts to ask replicas, on the caller's runtime.
    pub(crate) fn start(
        inner: RedisSession,
        gate: Arc<Gate>,
        to_ask: UnboundedReceiver<Ask>,
        replicas: Replicas,
        options: &Options,
    ) -> Self {
        let inner = Arc::new(inner);
        let rounds = Rounds::new(inner.clone(), gate.clone(), replicas, options);
        let rounds = tokio::spawn(rounds.run(to_ask)).abort_handle();
        Self { inner, gate, rounds }
    }

    /// The place to report to core for a join's place.
    async fn worth(&self, claim: &Claim, patience: Patience, place: Place) -> Result<Place> {
        let Place::Held { grant, until } = place else {
            if !matches!(place, Place::Waiting { .. }) {
                self.gate.forget(claim.id);
            }
            return Ok(place);
        };
        match self.gate.granted(claim.id, grant, patience == Patience::Wait) {
            Worth::All => Ok(place),
            // Core renews the claim from here on, and gets the outcome by a signal.
            Worth::Later(_) | Worth::Older if patience == Patience::Wait => {
                Ok(Place::Waiting { until, look_in: self.inner.calls.ttl })
            }
            Worth::Later(outcome) => match outcome.await {
                Ok(counts) => counts.map(|()| place),
                Err(_) => Ok(Place::Gone),
            },
            Worth::Older => {
                drop(self.leave(&claim.name, claim.id, Leave::Void));
                Ok(Place::Gone)
            }
            Worth::Nothing | Worth::Unknown => {
                drop(self.inner.leave(&claim.name, claim.id, Leave::Void)); // nothing else gives it back
                Ok(Place::Gone)
            }
        }
    }
}

impl Drop for ReplicatedSession {
    fn drop(&mut self) {
        self.rounds.abort();
    }
}

#[async_trait]
impl Session for ReplicatedSession {
    fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    fn shard(&self, name: &Name) -> Shard {
        self.inner.shard(name)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        if !self.gate.enter(claim.id, &claim.name) {
            return Ok(Place::Gone);
        }
        match self.inner.join(claim, patience).await {
            Ok(place) => self.worth(claim, patience, place).await,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
                    self.gate.forget(claim.id); // nothing was done
                }
                Err(error)
            }
        }
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let mut sight = self.inner.look(name, waiting).await?;
        sight.held.retain(|(id, grant)| matches!(self.gate.granted(*id, *grant, true), Worth::All));
        sight.gone.iter().for_each(|id| self.gate.forget(*id));
        Ok(sight)
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.gate.forget(id);
        self.inner.leave(name, id, how)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.inner.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.inner.resize(name, from, to).await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let renewal = self.inner.renew(shard, standing).await?;
        renewal.gone.iter().for_each(|id| self.gate.forget(*id));
        Ok(renewal)
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.inner.line(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.inner.names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.rounds.abort();
        self.inner.close().await
    }
}
