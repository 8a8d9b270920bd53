//! A guard in jeopardy: its holder is told, and told again when a renewal succeeds.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};

type Done = tidelock_core::Result<()>;

const TTL: Duration = Duration::from_secs(15);

struct Stage {
    clock: Clock,
    store: Store,
    locks: Arc<dyn Locks>,
}

impl Stage {
    async fn new() -> tidelock_core::Result<Self> {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let locks = store.connect(Options::new().ttl(TTL)).await?;
        Ok(Self { clock, store, locks })
    }

    /// The next renewal fails, and the ones after it until the store heals.
    async fn fail_a_renewal(&self) {
        self.store.faults().refuse_all();
        self.clock.pass(TTL / 3).await;
    }

    async fn renew(&self) {
        self.store.faults().heal();
        self.clock.pass(TTL / 10).await;
    }
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn now<F: Future + Unpin>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_failed_renewal_is_told_and_so_is_the_next_one_that_succeeds() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    assert_eq!(now(guard.held()), Poll::Ready(State::Held));
    let (jeopardy, lost) = (tokio::spawn(guard.jeopardy()), tokio::spawn(guard.lost()));
    tokio::task::yield_now().await;
    assert!(!jeopardy.is_finished(), "every renewal has succeeded");
    stage.fail_a_renewal().await;
    assert_eq!(jeopardy.await.expect("no panic"), State::Jeopardy);
    assert_eq!(guard.state(), State::Jeopardy);
    assert_eq!(now(guard.jeopardy()), Poll::Ready(State::Jeopardy));
    let held = tokio::spawn(guard.held());
    tokio::task::yield_now().await;
    assert!(!held.is_finished(), "no renewal has succeeded since");
    stage.renew().await;
    assert_eq!(held.await.expect("no panic"), State::Held);
    assert_eq!(guard.state(), State::Held);
    assert!(now(guard.jeopardy()).is_pending());
    assert!(!lost.is_finished());
    guard.release().await?.confirmed()?;
    stage.locks.close().await
}

#[tokio::test]
async fn both_are_ready_when_the_guard_is_lost() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    let jeopardy = tokio::spawn(guard.jeopardy());
    stage.store.faults().lose_sessions();
    assert_eq!(jeopardy.await.expect("no panic"), State::Lost);
    assert_eq!(now(guard.held()), Poll::Ready(State::Lost));
    stage.locks.close().await
}

#[tokio::test]
async fn a_guard_in_jeopardy_that_is_lost_is_not_held_again() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    stage.fail_a_renewal().await;
    let held = tokio::spawn(guard.held());
    tokio::task::yield_now().await;
    stage.clock.pass(TTL).await;
    assert_eq!(held.await.expect("no panic"), State::Lost);
    stage.store.faults().heal();
    stage.locks.close().await
}

#[tokio::test]
async fn both_are_ready_when_the_guard_is_given_back() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    stage.fail_a_renewal().await;
    let held = tokio::spawn(guard.held());
    tokio::task::yield_now().await;
    let jeopardy = guard.jeopardy();
    drop(guard);
    assert_eq!(held.await.expect("no panic"), State::Lost);
    assert_eq!(jeopardy.await, State::Lost);
    stage.store.faults().heal();
    stage.locks.close().await
}

/// The machine slept past the lease, and the keeper has not been awake since.
#[tokio::test]
async fn a_guard_whose_time_is_over_is_not_called_held() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    stage.clock.advance(TTL * 2);
    assert_eq!(now(guard.held()), Poll::Ready(State::Lost));
    assert_eq!(now(guard.jeopardy()), Poll::Ready(State::Lost));
    stage.locks.close().await
}

/// A renewal's answer may come later, and must not make it held again.
#[tokio::test]
async fn a_guard_that_is_called_lost_is_lost_for_everyone() -> Done {
    for asks in [Guard::held, Guard::jeopardy] {
        let stage = Stage::new().await?;
        let guard = stage.locks.mutex("m")?.lock().await?;
        stage.clock.advance(TTL * 2);
        let (asked, lost) = (asks(&guard), guard.lost());
        assert_eq!(now(asked), Poll::Ready(State::Lost));
        assert_eq!(now(lost), Poll::Ready(()));
        stage.locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn jeopardy_wakes_nobody_who_waits_for_the_loss() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.locks.mutex("m")?.lock().await?;
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(woken.clone());
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    stage.fail_a_renewal().await;
    stage.renew().await;
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    guard.release().await?.confirmed()?;
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    stage.locks.close().await
}
