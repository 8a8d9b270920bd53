//! The end of a client: `close` and `drain`.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Layer, Layered, Leave, Left, Reply, Session, Signals, Sleep, attach, boot_clock,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Error, Name, SessionId};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::keeps_only_claims::KeepsOnlyClaims;

type Done = tidelock_core::Result<()>;

/// A client on a clock that stands still unless it is turned.
fn on_a_standing_clock() -> tidelock_core::Result<(Clock, Store, Arc<dyn Locks>)> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new())?;
    Ok((clock, store, locks))
}

/// Its outcome, if it ends within this time, and two seconds for a busy machine.
async fn ends_within<T>(longest: Duration, work: impl Future<Output = T>) -> T {
    let limit = longest + Duration::from_secs(2);
    tokio::time::timeout(limit, work).await.expect("it ends although nobody turns the store's clock")
}

#[tokio::test]
async fn a_close_ends_though_nobody_turns_the_clock() -> Done {
    let (clock, store, locks) = on_a_standing_clock()?;
    let _held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    clock.pass(Duration::from_secs(16)).await; // the lock is lost, and its leave is refused
    store.faults().heal();
    ends_within(Options::new().command_deadline, locks.close()).await?;
    assert!(store.attach(Options::new())?.inspect("m").await?.claims.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_close_on_a_dead_store_fails_only_until_every_lease_has_ended() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let layered = || Layered::new(Arc::new(store.clone()), Arc::new(KeepsOnlyClaims));
    for has_own_renewals in [true, false] {
        let locks = match has_own_renewals {
            true => store.attach(Options::new())?,
            false => attach(Arc::new(layered()), Options::new())?,
        };
        let held = locks.mutex("m")?.lock().await?;
        store.faults().refuse_all();
        clock.pass(Options::new().ttl / 2).await;
        let deadline = Options::new().command_deadline;
        let error = ends_within(deadline, locks.close()).await.expect_err("its lease has not ended");
        assert!(error.to_string().contains("they are free when their lease ends"), "{error}");
        store.faults().heal();
        drop(held);
        locks.close().await?;

        let locks = match has_own_renewals {
            true => store.attach(Options::new())?,
            false => attach(Arc::new(layered()), Options::new())?,
        };
        let held = locks.mutex("m")?.lock().await?;
        store.faults().refuse_all();
        clock.pass(Options::new().ttl * 3).await;
        assert_eq!(held.state(), State::Lost);
        ends_within(Duration::ZERO, locks.close()).await?;
        store.faults().heal();
    }
    Ok(())
}

#[tokio::test]
async fn a_close_keeps_its_deadline_though_nobody_turns_the_clock() -> Done {
    let (_, store, locks) = on_a_standing_clock()?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().delay(Duration::from_millis(1)); // by the store's clock, so no answer ever comes
    let (longest, began) = (Duration::from_millis(300), Instant::now());
    let error = ends_within(longest, locks.close_within(longest)).await.expect_err("nothing is confirmed");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(began.elapsed() >= longest / 2, "it waited for an answer");
    assert_eq!(held.state(), State::Lost);
    store.faults().heal();
    ends_within(longest, locks.close_within(longest)).await // the store is back
}

#[tokio::test]
async fn a_close_of_a_session_that_is_being_opened_keeps_its_deadline_too() -> Done {
    let (_, store, locks) = on_a_standing_clock()?;
    store.faults().delay(Duration::from_millis(1));
    let opening = tokio::spawn({
        let locks = locks.clone();
        async move { locks.ping().await }
    });
    tokio::task::yield_now().await; // it has begun
    let longest = Duration::from_millis(300);
    let _ = ends_within(longest, locks.close_within(longest)).await;
    let told = ends_within(longest, opening).await.expect("no panic").expect_err("its client is closed");
    assert_eq!(told.kind(), ErrorKind::Closed);
    Ok(())
}

/// Lets every task of this runtime go on, until all of them wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_drain_lets_holders_finish_and_turns_everyone_else_away() -> Done {
    let (clock, store, locks) = on_a_standing_clock()?;
    let other = store.attach(Options::new().label("another program"))?;
    let held = locks.mutex("held")?.lock().await?;
    let elsewhere = other.mutex("elsewhere")?.lock().await?;
    let waiting = tokio::spawn({
        let mutex = locks.mutex("elsewhere")?;
        async move { mutex.lock().await.map(drop) }
    });
    settle().await;
    assert_eq!(other.inspect("elsewhere").await?.waiters().count(), 1);
    let drained = tokio::spawn({
        let locks = locks.clone();
        async move { locks.drain().await }
    });
    settle().await;
    let told = ends_within(Duration::ZERO, waiting).await.expect("no panic").unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Closed);
    let draining = "this Locks is being drained; it takes no new locks";
    assert!(told.to_string().ends_with(draining), "{told}");
    for _ in 0..2 {
        let refused = locks.mutex("new")?.try_lock().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        assert_eq!(refused.to_string(), format!("cannot lock \"new\": {draining}"));
    }
    let refused = locks.with_ttl(Duration::from_secs(5)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert_eq!(refused.to_string(), format!("cannot make a client with another ttl: {draining}"));
    ends_within(Duration::from_secs(5), async {
        while other.inspect("elsewhere").await?.claims.len() > 1 {
            tokio::task::yield_now().await; // the place in line is given up at once
        }
        tidelock_core::Result::Ok(())
    })
    .await?;
    // It is renewed for as long as it is held.
    clock.pass(Options::new().ttl * 3).await;
    assert_eq!(held.state(), State::Held);
    assert!(!drained.is_finished());
    locks.ping().await?;
    held.release().await?.confirmed()?;
    ends_within(Duration::ZERO, drained).await.expect("no panic")?;
    assert!(other.inspect("held").await?.claims.is_empty());
    assert_eq!(locks.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    let refused = locks.mutex("new")?.try_lock().await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot lock \"new\": this Locks was closed");
    elsewhere.release().await?.confirmed()?;
    other.close().await
}

#[tokio::test]
async fn a_drain_within_a_time_closes_when_it_is_over() -> Done {
    let (clock, store, locks) = on_a_standing_clock()?;
    let (given_back, kept) = (locks.mutex("a")?.lock().await?, locks.mutex("b")?.lock().await?);
    let draining = tokio::spawn({
        let locks = locks.clone();
        async move { locks.drain_within(Duration::from_secs(10)).await }
    });
    settle().await;
    given_back.release().await?.confirmed()?;
    clock.pass(Duration::from_secs(9)).await;
    assert!(!draining.is_finished());
    assert_eq!(kept.state(), State::Held);
    clock.pass(Duration::from_secs(2)).await;
    let all = ends_within(Duration::ZERO, draining).await.expect("no panic")?;
    assert!(!all, "one was never given back");
    assert_eq!(kept.state(), State::Lost);
    assert!(store.attach(Options::new())?.mutex("b")?.try_lock().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_drain_within_a_time_ends_though_nobody_turns_the_clock() -> Done {
    let (_, _, locks) = on_a_standing_clock()?;
    let _kept = locks.mutex("m")?.lock().await?;
    let longest = Duration::from_millis(100);
    assert!(!ends_within(longest, locks.drain_within(longest)).await?);
    Ok(())
}

#[tokio::test]
async fn a_drain_waits_for_the_answer_to_a_release() -> Done {
    let (clock, store, locks) = on_a_standing_clock()?;
    let guard = locks.mutex("m")?.lock().await?;
    let draining = tokio::spawn({
        let locks = locks.clone();
        async move { locks.drain_within(Duration::from_secs(10)).await }
    });
    settle().await;
    store.faults().delay(Duration::from_millis(100));
    let releasing = tokio::spawn(guard.release());
    settle().await;
    let asking = tokio::time::timeout(Duration::from_millis(50), locks.ping()).await;
    assert!(asking.is_err(), "it is closed before the store has confirmed the release: {asking:?}");
    clock.pass(Duration::from_millis(100)).await;
    releasing.await.expect("no panic")?.confirmed()?; // and it is not reported lost
    store.faults().heal();
    clock.pass(Duration::from_secs(1)).await;
    assert!(ends_within(Duration::from_secs(2), draining).await.expect("no panic")?);
    Ok(())
}

#[tokio::test]
async fn a_drain_ends_when_its_last_hold_is_lost_or_the_client_is_closed() -> Done {
    for is_lost in [true, false] {
        let (_, store, locks) = on_a_standing_clock()?;
        let held = locks.mutex("m")?.lock().await?;
        let draining = tokio::spawn({
            let locks = locks.clone();
            async move { locks.drain().await }
        });
        settle().await;
        match is_lost {
            true => drop(store.faults().lose_sessions()),
            false => locks.close().await?,
        }
        ends_within(Duration::from_secs(2), draining).await.expect("no panic")?;
        assert_eq!(held.state(), State::Lost);
        assert_eq!(locks.mutex("m")?.lock().await.unwrap_err().kind(), ErrorKind::Closed);
    }
    Ok(())
}

#[tokio::test]
async fn a_drain_of_a_client_that_holds_nothing_closes_it() -> Done {
    let (_, _, unused) = on_a_standing_clock()?;
    unused.drain().await?;
    assert_eq!(unused.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    unused.drain().await?; // and again
    let (_, _, used) = on_a_standing_clock()?;
    used.mutex("m")?.lock().await?.release().await?.confirmed()?;
    assert!(used.drain_within(Duration::ZERO).await?);
    Ok(())
}

#[tokio::test]
async fn a_close_that_has_no_time_blames_no_other_close() -> Done {
    let (_, store, locks) = on_a_standing_clock()?;
    let _held = locks.mutex("m")?.lock().await?;
    store.faults().delay(Duration::from_secs(1)); // or the store may be done before the close looks at its time
    let error = ends_within(Duration::ZERO, locks.close_within(Duration::ZERO)).await.expect_err("no time");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(!error.to_string().contains("another close"), "{error}");
    store.faults().heal();
    ends_within(Options::new().command_deadline, locks.close()).await
}

thread_local! {
    /// Whether a drain runs on this thread.
    static IS_DRAINING: Cell<bool> = const { Cell::new(false) };
}

type Outcome = tidelock_core::Result<Option<Guard>>;

/// A store whose session opens while a drain is between two of its steps: when it asks for the clock.
#[derive(Debug)]
struct OpensDuringADrain {
    store: Store,
    opens: AtomicBool,
    is_opening: AtomicBool,
    acquired: Arc<Mutex<Option<Outcome>>>,
}

#[async_trait]
impl Backend for OpensDuringADrain {
    fn clock(&self) -> Arc<dyn tidelock_core::backend::Clock> {
        if IS_DRAINING.get() {
            self.opens.store(true, Ordering::SeqCst);
            let enough = Instant::now() + Duration::from_secs(5);
            while self.acquired.lock().expect("no panic").is_none() && Instant::now() < enough {
                std::thread::yield_now();
            }
        }
        self.store.clock()
    }

    fn store(&self) -> &str {
        self.store.store()
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.is_opening.store(true, Ordering::SeqCst);
        while !self.opens.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        self.store.open(id, options, signals).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_cuts_nobody_off_whose_session_opens_at_that_moment() -> Done {
    let backend = Arc::new(OpensDuringADrain {
        store: Store::new(),
        opens: AtomicBool::new(false),
        is_opening: AtomicBool::new(false),
        acquired: Arc::default(),
    });
    let locks = attach(backend.clone(), Options::new())?;
    let (mutex, acquired) = (locks.mutex("m")?, backend.acquired.clone());
    tokio::spawn(async move {
        let outcome = mutex.lock().await.map(Some);
        *acquired.lock().expect("no panic") = Some(outcome);
    });
    until("it waits for its session", async || backend.is_opening.load(Ordering::SeqCst)).await;
    let here = tokio::runtime::Handle::current();
    let drained = std::thread::spawn(move || {
        IS_DRAINING.set(true);
        let mut drain = Box::pin(locks.drain());
        here.block_on(std::future::poll_fn(|cx| {
            let polled = drain.as_mut().poll(cx);
            IS_DRAINING.set(false); // only its first poll is held up
            polled
        }))
    });
    drained.join().expect("no panic")?;
    let outcome = backend.acquired.lock().expect("no panic").take().expect("it was told");
    match outcome {
        Ok(guard) => assert_eq!(guard.map(|guard| guard.state()), Some(State::Held), "it was cut off"),
        Err(told) => assert_eq!(told.kind(), ErrorKind::Closed),
    }
    Ok(())
}

/// A store that answers a close as it answers every request in a session that is over.
#[derive(Debug)]
struct SaysThatItIsOver;

#[async_trait]
impl Layer for SaysThatItIsOver {
    async fn close(&self, to: &Arc<dyn Session>) -> Done {
        to.close().await?;
        Err(Error::session_over())
    }
}

#[tokio::test]
async fn a_close_of_a_session_that_is_over_succeeds() -> Done {
    let store = Store::new();
    for has_failed_before in [false, true] {
        let layered = Layered::new(Arc::new(store.clone()), Arc::new(SaysThatItIsOver));
        let locks = attach(Arc::new(layered), Options::new())?;
        let _held = locks.mutex("m")?.lock().await?;
        if has_failed_before {
            store.faults().refuse_all();
            assert!(locks.close_within(Duration::from_millis(50)).await.is_err(), "the store is away");
            store.faults().heal();
        }
        locks.close().await?;
    }
    Ok(())
}

/// A store that confirms leaves late, and never the end of a session.
#[derive(Debug)]
struct ConfirmsOnlyLeaves;

#[async_trait]
impl Layer for ConfirmsOnlyLeaves {
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let leaving = to.leave(name, id, how);
        Box::pin(async {
            let clock = boot_clock();
            Sleep::until(&clock, clock.now() + Duration::from_millis(300)).await;
            leaving.await
        })
    }

    async fn close(&self, _: &Arc<dyn Session>) -> Done {
        std::future::pending().await
    }
}

/// They are confirmed while it waits for the end of the session.
#[tokio::test]
async fn a_close_names_no_lock_whose_leave_was_confirmed() -> Done {
    let layered = Layered::new(Arc::new(Store::new()), Arc::new(ConfirmsOnlyLeaves));
    let locks = attach(Arc::new(layered), Options::new())?;
    let _held = locks.mutex("held")?.lock().await?;
    let mut releasing = Box::pin(locks.mutex("released")?.lock().await?.release());
    assert!(tokio::time::timeout(Duration::ZERO, releasing.as_mut()).await.is_err());
    let error = locks.close_within(Duration::from_millis(500)).await.expect_err("its end is not confirmed");
    let told =
        "cannot close: the store did not confirm the end of the session in time; it ends with its lease";
    assert_eq!(error.to_string(), told);
    releasing.await?.confirmed()
}
