//! A store that renews at most two names at a time keeps thirty names. Core soon asks again about names that a renewal
//! did not reach, and claims that end first are renewed first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Layered, Renewal, Session, Shard};
use tidelock_core::{ClaimId, Name, Options, Result, State};
use tidelock_memory::{Clock, Store};

/// How many names it renews at a time.
const AT_ONCE: usize = 2;

#[derive(Debug)]
struct Slow;

#[async_trait]
impl Layer for Slow {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let mut renewal = to.renew(shard, standing).await?;
        renewal.unsure = standing.iter().skip(AT_ONCE).flat_map(|(_, ids)| ids).copied().collect();
        Ok(renewal)
    }
}

#[tokio::test]
async fn a_store_that_renews_a_few_names_at_a_time_keeps_them_all() -> Result<()> {
    let clock = Clock::manual();
    let slow = Layered::new(Arc::new(Store::with_clock(&clock)), Arc::new(Slow));
    let ttl = Duration::from_secs(15);
    let locks = tidelock_core::backend::connect(Arc::new(slow), Options::new().ttl(ttl)).await?;
    let mut held = Vec::new();
    for i in 0..30 {
        held.push(locks.mutex(&format!("name {i}"))?.lock().await?);
    }
    clock.pass(ttl * 5).await;
    assert_eq!(held.iter().filter(|guard| guard.state() == State::Lost).count(), 0);
    drop(held);
    locks.close().await
}

/// A store that fails on one name each time.
#[derive(Debug, Default)]
struct Stumbling {
    renewals: AtomicUsize,
}

#[async_trait]
impl Layer for Stumbling {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let (good, bad): (Vec<_>, Vec<_>) = standing.iter().cloned().partition(|(name, _)| &**name != "bad");
        let mut renewal = to.renew(shard, &good).await?;
        renewal.unsure = bad.into_iter().flat_map(|(_, ids)| ids).collect();
        Ok(renewal)
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_renewed_is_asked_about_less_and_less_often() -> Result<()> {
    let clock = Clock::manual();
    let stumbling = Arc::new(Stumbling::default());
    let store = Layered::new(Arc::new(Store::with_clock(&clock)), stumbling.clone());
    let ttl = Duration::from_secs(30);
    let locks =
        tidelock_core::backend::connect(Arc::new(store), Options::new().ttl(ttl).max_hold(ttl / 2)).await?;
    let good = locks.mutex("good")?.lock().await?;
    clock.pass(Duration::from_millis(1)).await; // the caller must give this name up before the other
    let bad = locks.mutex("bad")?.lock().await?;
    clock.pass(ttl / 2 - Duration::from_millis(2)).await;
    assert_eq!(good.state(), State::Held);
    assert_eq!(bad.state(), State::Jeopardy);
    let renewals = stumbling.renewals.load(Ordering::Relaxed);
    assert!(renewals < 20, "it was asked {renewals} times in 5 s");
    locks.close().await
}
