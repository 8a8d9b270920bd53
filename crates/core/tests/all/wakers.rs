//! Users' wakers may do anything, on Tidelock's threads. It must not cost any other task a lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Layer, Session, Signals};
use tidelock_core::prelude::*;
use tidelock_core::{Options, SessionId};
use tidelock_memory::Store;

use crate::condition::until;
use crate::layered::attach;
use crate::line::until_waiting;

type Done = tidelock_core::Result<()>;

/// A waker that panics, and counts its panics.
#[derive(Default)]
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose: a waker of the user's");
    }
}

impl Panics {
    /// Polls `future` once with this waker.
    fn poll<F: Future + ?Sized>(self: &Arc<Self>, future: Pin<&mut F>) {
        let waker = Waker::from(self.clone());
        assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
    }

    async fn until_woken(&self) {
        until("its waker is called", async || self.0.load(Ordering::SeqCst) > 0).await;
    }
}

/// Fails if the work takes longer than anything here may take.
async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(8), work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within 8 s"))
}

/// Another wait ends after a wait whose time is up has called `waker`, which panics.
async fn stops_no_clock(waker: Waker, is_woken: impl Fn() -> bool) -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let held = mutex.lock().await?;
    let mut waiting = mutex.lock_within(Duration::from_millis(20));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until("its waker is called", async || is_woken()).await;
    let other = soon("another wait ends", mutex.lock_within(Duration::from_millis(20))).await?;
    assert!(other.is_none());
    drop(waiting);
    held.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_waker_that_panics_stops_no_clock() -> Done {
    let panics = Arc::new(Panics::default());
    stops_no_clock(panics.clone().into(), || panics.0.load(Ordering::SeqCst) > 0).await
}

#[tokio::test]
async fn a_waker_that_panics_ends_no_session() -> Done {
    const TTL: Duration = Duration::from_secs(1);
    let store = Store::new();
    let (a, b) = (store.attach(Options::new().ttl(TTL))?, store.attach(Options::new().ttl(TTL))?);
    let (ahead, other) = (b.mutex("m")?.lock().await?, a.mutex("other")?.lock().await?);
    let panics = Arc::new(Panics::default());
    let mutex = a.mutex("m")?;
    let mut waiting = mutex.lock();
    panics.poll(waiting.as_mut());
    until_waiting(&b, "m", 1).await;
    store.faults().drop_signals(); // so that it is the keeper that finds the grant
    ahead.release().await?.confirmed()?;
    panics.until_woken().await;
    store.faults().heal();
    assert_eq!(other.state(), State::Held);
    tokio::time::sleep(TTL * 3 / 2).await;
    assert_eq!(other.state(), State::Held, "it is renewed all the same");
    drop(waiting);
    other.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

#[tokio::test]
async fn a_waker_that_panics_keeps_no_other_listener_from_hearing_of_a_loss() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    let panics = Arc::new(Panics::default());
    let mut lost = held.lost();
    panics.poll(Pin::new(&mut lost));
    let told = tokio::spawn(held.lost());
    tokio::task::yield_now().await;
    store.faults().lose_sessions();
    soon("the other listener hears of it", told).await.expect("no panic");
    locks.close().await
}

/// Opens no session until its gate is open.
#[derive(Debug, Default)]
struct Gated(tokio::sync::Notify);

#[async_trait]
impl Layer for Gated {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.0.notified().await;
        to.open(id, options, signals).await
    }
}

#[tokio::test]
async fn a_waker_that_panics_keeps_no_other_from_a_session_that_opens() -> Done {
    let gated = Arc::new(Gated::default());
    let locks = attach(&Store::new(), gated.clone(), Options::new())?;
    let (a, b) = (locks.mutex("a")?, locks.mutex("b")?);
    let panics = Arc::new(Panics::default());
    let (mut first, mut last) = (a.lock(), a.lock());
    panics.poll(first.as_mut());
    let other = tokio::spawn(async move { b.lock().await?.release().await?.confirmed() });
    tokio::task::yield_now().await;
    panics.poll(last.as_mut());
    gated.0.notify_one();
    soon("the other is served", other).await.expect("no panic")?;
    drop((first, last));
    locks.close().await
}

#[tokio::test]
async fn a_waker_that_panics_ends_no_other_task_of_its_owner() -> Done {
    let locks = tidelock_memory::connect();
    let ahead = locks.mutex("m")?.lock().await?;
    let (mutex, me) = (tidelock_core::Reentrant::new(locks.mutex("m")?), tidelock_core::Owner::new());
    let (mut first, mut second) = (Box::pin(mutex.lock(&me)), Box::pin(mutex.lock(&me)));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let panics = Arc::new(Panics::default());
    panics.poll(second.as_mut()); // it waits for the first one
    ahead.release().await?.confirmed()?;
    let held = soon("the first one has its turn", first).await?;
    panics.until_woken().await;
    drop(second);
    held.release().await?.confirmed()
}

/// The payload of a waker's panic. It panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose: what a waker panicked with");
    }
}

#[derive(Default)]
struct Bombs(AtomicUsize);

impl Wake for Bombs {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Bomb);
    }
}

#[tokio::test]
async fn what_a_waker_panics_with_stops_no_clock_either() -> Done {
    let bombs = Arc::new(Bombs::default());
    stops_no_clock(bombs.clone().into(), || bombs.0.load(Ordering::SeqCst) > 0).await
}
