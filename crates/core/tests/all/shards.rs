//! A shard that fails costs the others nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Clock as BackendClock, Layer, Renewal, Session, Shard, Signals, Sleep,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Name};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::layered::attach;

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);
/// How long a renewal of the healthy shard takes.
const SLOW: Duration = Duration::from_millis(1_500);
const FAILING: Shard = Shard(1);
const HEALTHY: Shard = Shard(2);

/// Two shards: the name "failing" is in the one, and all others are in the other.
#[derive(Debug)]
struct Shards {
    clock: Arc<dyn BackendClock>,
    fails: AtomicBool,
    is_slow: AtomicBool,
    under_way: AtomicUsize,
    renewals: AtomicUsize,
    signals: Mutex<Option<Arc<dyn Signals>>>,
}

#[async_trait]
impl Layer for Shards {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        *self.signals.lock().expect("no panic") = Some(to.clone());
        to
    }

    fn shard(&self, _: &Arc<dyn Session>, name: &Name) -> Shard {
        if &**name == "failing" { FAILING } else { HEALTHY }
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        if shard == FAILING && self.fails.load(Ordering::SeqCst) {
            return Err(tidelock_core::Error::new(ErrorKind::Unavailable, "not now"));
        }
        let renewal = to.renew(shard, standing).await?;
        if shard == HEALTHY && self.is_slow.load(Ordering::SeqCst) {
            self.renewals.fetch_add(1, Ordering::SeqCst);
            self.under_way.fetch_add(1, Ordering::SeqCst);
            Sleep::until(&self.clock, self.clock.now() + SLOW).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(Renewal { strays: Vec::new(), ..renewal })
    }
}

/// It is to be renewed once more when a signal asks for it during a renewal, and then no more than usual.
#[tokio::test]
async fn a_shard_that_answers_is_not_renewed_back_to_back_while_another_fails() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let shards = Arc::new(Shards {
        clock: Backend::clock(&store),
        fails: AtomicBool::new(false),
        is_slow: AtomicBool::new(false),
        under_way: AtomicUsize::new(0),
        renewals: AtomicUsize::new(0),
        signals: Mutex::default(),
    });
    let locks = attach(&store, shards.clone(), Options::new().ttl(TTL))?;
    let _failing = locks.mutex("failing")?.lock().await?;
    let _healthy = locks.mutex("healthy")?.lock().await?;
    shards.is_slow.store(true, Ordering::SeqCst);
    shards.fails.store(true, Ordering::SeqCst);
    until("the healthy shard is being renewed", async || {
        clock.pass(Duration::from_millis(100)).await;
        shards.under_way.load(Ordering::SeqCst) > 0
    })
    .await;
    shards.signals.lock().expect("no panic").as_ref().expect("it is open").look_everywhere();
    let before = shards.renewals.load(Ordering::SeqCst);
    clock.pass(TTL).await;
    let renewals = shards.renewals.load(Ordering::SeqCst) - before;
    assert!((3..=5).contains(&renewals), "{renewals} renewals in a ttl: every third of it, and once more");
    Ok(())
}
