//! A shard that fails costs the others nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Clock as BackendClock, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard,
    Sight, Signals, Sleep, attach,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Line, Name, SessionId, Weight};
use tidelock_memory::{Clock, Store};

use crate::condition::until;

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);
/// How long a renewal of the healthy shard takes.
const SLOW: Duration = Duration::from_millis(1_500);
const FAILING: Shard = Shard(1);
const HEALTHY: Shard = Shard(2);

/// Two shards: the name "failing" is in the one, and all others are in the other.
#[derive(Clone, Debug)]
struct Shards {
    store: Store,
    how: Arc<How>,
}

#[derive(Debug, Default)]
struct How {
    fails: AtomicBool,
    is_slow: AtomicBool,
    under_way: AtomicUsize,
    renewals: AtomicUsize,
    signals: Mutex<Option<Arc<dyn Signals>>>,
}

#[derive(Debug)]
struct ShardedSession {
    inner: Arc<dyn Session>,
    shards: Shards,
}

#[async_trait]
impl Backend for Shards {
    fn clock(&self) -> Arc<dyn BackendClock> {
        Backend::clock(&self.store)
    }

    fn store(&self) -> &str {
        Backend::store(&self.store)
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        *self.how.signals.lock().expect("no panic") = Some(signals.clone());
        let inner = self.store.open(id, options, signals).await?;
        Ok(Arc::new(ShardedSession { inner, shards: self.clone() }))
    }
}

#[async_trait]
impl Session for ShardedSession {
    fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    fn shard(&self, name: &Name) -> Shard {
        if &**name == "failing" { FAILING } else { HEALTHY }
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.inner.join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.inner.look(name, waiting).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.inner.leave(name, id, how)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result {
        self.inner.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result {
        self.inner.resize(name, from, to).await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let how = &self.shards.how;
        if shard == FAILING && how.fails.load(Ordering::SeqCst) {
            return Err(tidelock_core::Error::new(ErrorKind::Unavailable, "not now"));
        }
        let renewal = self.inner.renew(shard, standing).await?;
        if shard == HEALTHY && how.is_slow.load(Ordering::SeqCst) {
            how.renewals.fetch_add(1, Ordering::SeqCst);
            how.under_way.fetch_add(1, Ordering::SeqCst);
            let clock = Backend::clock(&self.shards.store);
            Sleep::until(&clock, clock.now() + SLOW).await;
            how.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(Renewal { strays: Vec::new(), ..renewal })
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.inner.line(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.inner.names(prefix, after).await
    }

    async fn close(&self) -> Result {
        self.inner.close().await
    }
}

/// It is to be renewed once more when a signal asks for it during a renewal, and then no more than usual.
#[tokio::test]
async fn a_shard_that_answers_is_not_renewed_back_to_back_while_another_fails() -> Result {
    let clock = Clock::manual();
    let how = Arc::new(How::default());
    let shards = Shards { store: Store::with_clock(&clock), how: how.clone() };
    let locks = attach(Arc::new(shards), Options::new().ttl(TTL))?;
    let _failing = locks.mutex("failing")?.lock().await?;
    let _healthy = locks.mutex("healthy")?.lock().await?;
    how.is_slow.store(true, Ordering::SeqCst);
    how.fails.store(true, Ordering::SeqCst);
    until("the healthy shard is being renewed", async || {
        clock.pass(Duration::from_millis(100)).await;
        how.under_way.load(Ordering::SeqCst) > 0
    })
    .await;
    how.signals.lock().expect("no panic").as_ref().expect("it is open").look_everywhere();
    let before = how.renewals.load(Ordering::SeqCst);
    clock.pass(TTL).await;
    let renewals = how.renewals.load(Ordering::SeqCst) - before;
    assert!((3..=5).contains(&renewals), "{renewals} renewals in a ttl: every third of it, and once more");
    Ok(())
}
