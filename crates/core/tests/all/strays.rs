//! A claim that has left stands in line all the same, as on a master that takes over from another. It delays its line
//! only until it is granted: then it is given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Patience, Renewal, Session, Shard, Signals, Sleep};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Kind, Name, SessionId, Weight};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::layered::attach;
use crate::line::{until_waiting, waiter};

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);
/// How long the answer to a renewal takes, if it is to take long.
const SLOW: Duration = Duration::from_millis(1_500);

/// Keeps the session, so that a test can make a stray of it, and has renewals take a while.
#[derive(Debug)]
struct Watched {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    session: Mutex<Option<Arc<dyn Session>>>,
    is_slow: AtomicBool,
    is_renewing: AtomicBool,
}

#[async_trait]
impl Layer for Watched {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let session = to.open(id, options, signals).await?;
        *self.session.lock().expect("no panic") = Some(session.clone());
        Ok(session)
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let renewal = to.renew(shard, standing).await;
        if self.is_slow.load(Ordering::SeqCst) {
            self.is_renewing.store(true, Ordering::SeqCst);
            Sleep::until(&self.clock, self.clock.now() + SLOW).await;
            self.is_renewing.store(false, Ordering::SeqCst);
        }
        renewal
    }
}

/// For how long the line of a mutex stands still after its holder has left, if a stray is next.
async fn stands_still_for(is_renewing: bool) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched {
        clock: Backend::clock(&store),
        session: Mutex::default(),
        is_slow: AtomicBool::new(is_renewing),
        is_renewing: AtomicBool::new(false),
    });
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let holder = store.attach(Options::new().ttl(TTL))?;
    let other = ours.mutex("other")?.lock().await?;
    let held = holder.mutex("m")?.lock().await?;
    if is_renewing {
        until("a renewal is under way", async || {
            clock.pass(Duration::from_millis(100)).await;
            watched.is_renewing.load(Ordering::SeqCst)
        })
        .await;
    }
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    let id = ClaimId { session: other.claim().session, number: 1_000_001 };
    let stray = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    session.join(&stray, Patience::Wait).await?;
    let waits = waiter(&ours, "m");
    until_waiting(&holder, "m", 2).await; // the stray, and a claim behind it
    let began = watched.clock.now();
    held.release().await?;
    until("it is granted", async || {
        clock.pass(Duration::from_millis(100)).await;
        waits.is_finished()
    })
    .await;
    let stood_still = watched.clock.now().since(began);
    drop(waits.await.expect("no panic")?);
    drop(other);
    ours.close().await?;
    holder.close().await?;
    Ok(stood_still)
}

#[tokio::test]
async fn a_stray_that_is_granted_is_given_back_at_once() -> Result {
    let stood_still = stands_still_for(false).await?;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}

/// The renewal under way may have passed its line before the stray was granted.
#[tokio::test]
async fn a_stray_that_is_granted_during_a_renewal_is_found_by_the_next_which_follows_at_once() -> Result {
    let stood_still = stands_still_for(true).await?;
    assert!(stood_still < SLOW * 2 + Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}
