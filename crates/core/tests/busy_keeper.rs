//! The keepers of a process share one thread. A clock that is turned by hand waits for it, so a store that keeps that
//! thread busy costs no client of another store its lock.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Layered, Renewal, Session, Shard};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Name, Result};
use tidelock_memory::{Clock, Store};

const TTL: Duration = Duration::from_secs(15);
/// Longer than a clock waits for a task that it has woken.
const BUSY: Duration = Duration::from_millis(2_500);

/// A store whose renewals keep the thread busy.
#[derive(Debug)]
struct Busy {
    began: Sender<()>,
    not_before: std::sync::Mutex<Receiver<()>>,
}

#[async_trait]
impl Layer for Busy {
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let _ = self.began.send(());
        let _ = self.not_before.lock().expect("no panic").recv_timeout(BUSY);
        to.renew(shard, standing).await
    }
}

#[tokio::test]
async fn a_clock_waits_for_a_keeper_that_is_busy_with_another_store() -> Result<()> {
    let clock = Clock::manual();
    let locks = Store::with_clock(&clock).attach(Options::new().ttl(TTL))?;
    let held = locks.mutex("m")?.lock().await?;

    let (began, begins) = channel();
    let (_never, not_before) = channel();
    let busy = Arc::new(Busy { began, not_before: std::sync::Mutex::new(not_before) });
    let other = Clock::manual();
    let backend = Layered::new(Arc::new(Store::with_clock(&other)), busy);
    let theirs = tidelock_core::backend::attach(Arc::new(backend), Options::new().ttl(TTL))?;
    let also_held = theirs.mutex("m")?.lock().await?;
    other.advance(TTL / 2);
    begins.recv_timeout(BUSY).expect("the other store is renewed, and keeps the thread");

    clock.pass(TTL * 2).await;
    assert_eq!(held.state(), State::Held);
    drop(also_held);
    held.release().await?.confirmed()?;
    locks.close().await
}
