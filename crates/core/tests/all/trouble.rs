//! Backends that hang, panic or end while they are in use.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Signals,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Name, Options, SessionId};
use tidelock_memory::Store;
use tokio::task::JoinHandle;

use crate::condition::until;
use crate::layered::attach;
use crate::line::{until_empty, until_waiting, waiter};

type Done = tidelock_core::Result<()>;

/// A store with one defect.
#[derive(Debug)]
struct Sick {
    store: Store,
    how: How,
    opens: AtomicUsize,
    leaves: AtomicUsize,
    closes: AtomicUsize,
    gate: tokio::sync::Notify,
    /// All that were opened.
    sessions: Mutex<Vec<Weak<dyn Session>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    OpenHangs,
    OpenWaitsForTheGate,
    RenewPanics,
    ConflictOnJoin,
    JoinHangs,
    LeavesAreDeniedAtFirst,
    TheFirstLeaveIsLost,
    LeavesAreSlowAndTheirUsersOwn,
    CloseHangs,
    CloseIsCounted,
    LeavePanics,
}

impl Sick {
    fn locks(how: How, options: Options) -> tidelock_core::Result<(Arc<Self>, Arc<dyn Locks>)> {
        let sick = Arc::new(Self {
            store: Store::new(),
            how,
            opens: AtomicUsize::new(0),
            leaves: AtomicUsize::new(0),
            closes: AtomicUsize::new(0),
            gate: tokio::sync::Notify::new(),
            sessions: Mutex::default(),
        });
        let locks = attach(&sick.store, sick.clone(), options)?;
        Ok((sick, locks))
    }

    /// Waits until the first session is being opened.
    async fn until_opening(&self) {
        until("it is being opened", async || self.opens.load(Ordering::Relaxed) == 1).await;
    }

    fn keeps_a_session(&self) -> bool {
        self.sessions.lock().expect("no panic").iter().any(|session| session.strong_count() > 0)
    }
}

#[async_trait]
impl Layer for Sick {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        match self.how {
            How::OpenHangs => std::future::pending().await,
            How::OpenWaitsForTheGate => self.gate.notified().await,
            _ => {}
        }
        let session = to.open(id, options, signals).await?;
        self.sessions.lock().expect("no panic").push(Arc::downgrade(&session));
        Ok(session)
    }

    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        if self.how == How::ConflictOnJoin {
            return Err(tidelock_core::Error::new(ErrorKind::Conflict, "somebody else was quicker"));
        }
        if self.how == How::JoinHangs {
            std::future::pending::<()>().await;
        }
        to.join(claim, patience).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        assert_ne!(self.how, How::LeavePanics, "on purpose: a bug in the backend");
        let before = self.leaves.fetch_add(1, Ordering::Relaxed);
        if self.how == How::LeavesAreDeniedAtFirst && before < 3 {
            let denied = tidelock_core::Error::new(ErrorKind::Denied, "somebody edits the permissions");
            return Box::pin(std::future::ready(Err(denied)));
        }
        if self.how == How::TheFirstLeaveIsLost && before == 0 {
            let clock = tidelock_core::backend::boot_clock();
            let told = tidelock_core::backend::Sleep::until(&clock, clock.now() + Duration::from_millis(20));
            let lost = tidelock_core::Error::new(ErrorKind::Unavailable, "the connection ended");
            return Box::pin(async {
                told.await;
                Err(lost)
            });
        }
        if self.how == How::LeavesAreSlowAndTheirUsersOwn {
            return Box::pin(users_own(to.leave(name, id, how)));
        }
        to.leave(name, id, how)
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> tidelock_core::Result<Renewal> {
        assert!(self.how != How::RenewPanics, "on purpose");
        to.renew(shard, standing).await
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Done {
        if self.how == How::CloseHangs {
            std::future::pending::<()>().await;
        }
        self.closes.fetch_add(1, Ordering::Relaxed);
        to.close().await
    }
}

/// An answer that takes longer than the time to the next renewal, by a way that serves nobody but the caller.
async fn users_own<T>(reply: Reply<T>) -> tidelock_core::Result<T> {
    let clock = tidelock_core::backend::boot_clock();
    let mut answered =
        pin!(tidelock_core::backend::Sleep::until(&clock, clock.now() + Duration::from_millis(400)));
    std::future::poll_fn(|cx| match std::thread::current().name() {
        Some("tidelock-keeper") => {
            Poll::Ready(Err(tidelock_core::Error::new(ErrorKind::Timeout, "the keeper is told nothing here")))
        }
        _ => answered.as_mut().poll(cx).map(Ok),
    })
    .await?;
    reply.await
}

#[tokio::test]
async fn a_store_that_does_not_open_keeps_nobody_beyond_their_patience() -> Done {
    let (sick, locks) = Sick::locks(How::OpenHangs, Options::new())?;
    let began = Instant::now();
    let mutex = locks.mutex("m")?;
    let patience = Duration::from_millis(10);
    let waits = [(); 8].map(|()| mutex.lock_within(patience));
    for wait in waits {
        assert_eq!(wait.await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "one opening serves all, and each caller waits by itself"
    );
    assert_eq!(sick.opens.load(Ordering::Relaxed), 1);
    Ok(())
}

#[tokio::test]
async fn an_acquire_that_nobody_polls_keeps_no_other_from_opening() -> Done {
    let (sick, locks) = Sick::locks(How::OpenWaitsForTheGate, Options::new())?;
    let (a, b) = (locks.mutex("a")?, locks.mutex("b")?);
    let mut parked = a.lock();
    assert!(parked.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    sick.gate.notify_one();
    b.lock_within(Duration::from_secs(5)).await?.expect("free").release().await?.confirmed()?;
    drop(parked);
    locks.close().await
}

#[tokio::test]
async fn a_backend_that_panics_loses_its_guards_and_says_so() -> Done {
    let (_, locks) = Sick::locks(How::RenewPanics, Options::new().ttl(Duration::from_secs(1)))?;
    let held = locks.mutex("m")?.lock().await?;
    until("the guard is lost", async || held.state() == State::Lost).await;
    held.lost().await;
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    Ok(())
}

#[tokio::test]
async fn a_join_that_was_refused_by_chance_is_an_error_and_leaves_no_claim() -> Done {
    let (_, locks) = Sick::locks(How::ConflictOnJoin, Options::new())?;
    assert_eq!(locks.mutex("m")?.lock().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(locks.inspect("m").await?.claims.is_empty());
    locks.close().await
}

#[tokio::test]
async fn a_leave_that_was_denied_for_a_moment_is_repeated() -> Done {
    for is_released in [false, true] {
        let (_, locks) = Sick::locks(How::LeavesAreDeniedAtFirst, Options::new())?;
        let held = locks.mutex("m")?.lock().await?;
        if is_released {
            let on_its_way = held.release().await?.confirmed().unwrap_err();
            assert_eq!(on_its_way.kind(), ErrorKind::Denied);
            assert_eq!(on_its_way.operation(), Some("release"));
        } else {
            drop(held);
        }
        let next = locks.mutex("m")?.lock_within(Duration::from_secs(5)).await?;
        next.expect("it was given back long before its lifetime ends").release().await?.confirmed()?;
        locks.close().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_after_close_whatever_was_on_its_way() -> Done {
    for _ in 0..50 {
        let locks = Store::new().attach(Options::new())?;
        let crowd: Vec<_> = (0..8)
            .map(|task| {
                let mutex = locks.mutex(&format!("m{task}")).expect("a good name");
                tokio::spawn(async move {
                    loop {
                        match mutex.lock().await {
                            Ok(guard) if guard.state() == State::Lost => return Ok(guard),
                            Ok(guard) => drop(guard.release().await),
                            Err(error) => return Err(error),
                        }
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        locks.close().await?;
        for task in crowd {
            match task.await.expect("no panic") {
                Ok(guard) => assert_eq!(guard.state(), State::Lost),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_second_close_waits_for_the_same_end() -> Done {
    let locks = Store::new().attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    let (first, second) = tokio::join!(locks.close(), locks.close());
    first?;
    second?;
    assert_eq!(held.state(), State::Lost);
    assert!(locks.with_ttl(Duration::from_secs(5)).is_err());
    Ok(())
}

#[tokio::test]
async fn lock_all_takes_nothing_when_what_it_held_is_lost_meanwhile() -> Done {
    let store = Store::new();
    let (locks, other) = (store.attach(Options::new().label("ours"))?, store.attach(Options::new())?);
    let b = other.mutex("b")?.lock().await?;
    let all = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock_all(&["a", "b"]).await }
    });
    until_waiting(&other, "b", 1).await;
    store.faults().lose_sessions_of("ours");
    assert_eq!(all.await.expect("no panic").unwrap_err().kind(), ErrorKind::Lost);
    b.release().await?.confirmed()?;
    for name in ["a", "b"] {
        until_empty(&other, name).await;
    }
    locks.close().await?;
    other.close().await
}

/// Acquires m from a store that does not answer that.
async fn asking_in_vain(locks: &Arc<dyn Locks>) -> JoinHandle<tidelock_core::Result<Guard>> {
    let asking = waiter(locks, "m");
    tokio::task::yield_now().await; // the request is under way
    asking
}

async fn is_told_that_it_is_closed(asking: JoinHandle<tidelock_core::Result<Guard>>) {
    let told = tokio::time::timeout(Duration::from_secs(3), asking).await.expect("it is told at once");
    assert_eq!(told.expect("no panic").expect_err("it is closed").kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_caller_that_waits_for_an_answer_is_told_that_its_locks_is_closed() -> Done {
    let (_, locks) = Sick::locks(How::JoinHangs, Options::new().command_deadline(Duration::from_secs(60)))?;
    locks.ping().await?;
    let asking = asking_in_vain(&locks).await;
    locks.close().await?;
    is_told_that_it_is_closed(asking).await;
    Ok(())
}

#[tokio::test]
async fn a_caller_that_pauses_before_it_asks_again_is_told_that_its_locks_is_closed() -> Done {
    let (store, long) = (Store::new(), Duration::from_secs(30));
    let locks = store.attach(Options::new().command_deadline(long * 2).back_off(long, long))?;
    locks.ping().await?;
    store.faults().refuse_next(1);
    let asking = asking_in_vain(&locks).await;
    locks.close().await?;
    is_told_that_it_is_closed(asking).await;
    Ok(())
}

#[tokio::test]
async fn a_caller_that_waits_for_an_answer_goes_on_as_soon_as_its_session_is_over() -> Done {
    let (sick, locks) =
        Sick::locks(How::JoinHangs, Options::new().command_deadline(Duration::from_secs(60)))?;
    locks.ping().await?;
    let asking = asking_in_vain(&locks).await;
    sick.store.faults().lose_sessions();
    until("it opens another", async || sick.opens.load(Ordering::Relaxed) == 2).await;
    locks.close().await?;
    is_told_that_it_is_closed(asking).await;
    Ok(())
}

/// Closes, and returns whether that kept its deadline, and how it ended.
async fn close_within(locks: &Arc<dyn Locks>, longest: Duration) -> (bool, Done) {
    let began = Instant::now();
    let closed = locks.close_within(longest).await;
    (began.elapsed() < longest + Duration::from_millis(400), closed)
}

const SHORT: Duration = Duration::from_millis(100);

/// A way to close a client.
#[derive(Clone, Copy, Debug)]
enum By {
    Drain,
    DrainWithin(Duration),
    Close,
    CloseWithin(Duration),
}

async fn close_by(by: By, locks: &Arc<dyn Locks>) -> Done {
    match by {
        By::Drain => locks.drain().await,
        By::DrainWithin(longest) => {
            assert!(locks.drain_within(longest).await?, "nothing was held");
            Ok(())
        }
        By::Close => locks.close().await,
        By::CloseWithin(longest) => locks.close_within(longest).await,
    }
}

#[tokio::test]
async fn while_a_session_is_being_opened_there_is_nothing_to_close() -> Done {
    let ways = [
        By::Drain,
        By::DrainWithin(Duration::ZERO),
        By::DrainWithin(Duration::from_secs(60)),
        By::Close,
        By::CloseWithin(Duration::ZERO),
        By::CloseWithin(Duration::MAX),
    ];
    for by in ways {
        let (sick, locks) = Sick::locks(How::OpenHangs, Options::new())?;
        let waiting = waiter(&locks, "m");
        sick.until_opening().await;
        let began = Instant::now();
        close_by(by, &locks).await.unwrap_or_else(|error| panic!("{by:?}: {error}"));
        let told = waiting.await.expect("no panic").expect_err("its client is closed");
        assert_eq!(told.kind(), ErrorKind::Closed, "{by:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{by:?} took {:?}", began.elapsed());
        close_by(by, &locks).await?; // and again
    }
    Ok(())
}

#[tokio::test]
async fn close_within_keeps_its_deadline_behind_another_closer() -> Done {
    let (_, locks) = Sick::locks(How::CloseHangs, Options::new())?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?;
    let first = tokio::spawn({
        let locks = locks.clone();
        async move { close_within(&locks, Duration::from_secs(2)).await }
    });
    tokio::task::yield_now().await;
    let (in_time, closed) = close_within(&locks, SHORT).await;
    assert!(in_time);
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Timeout);
    let (in_time, closed) = first.await.expect("no panic");
    assert!(in_time);
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Timeout);
    Ok(())
}

#[tokio::test]
async fn a_close_has_its_own_time_behind_an_impatient_one() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let _held = locks.mutex("m")?.lock().await?;
    store.faults().delay(SHORT);
    let impatient = tokio::spawn({
        let locks = locks.clone();
        async move { locks.close_within(SHORT / 10).await }
    });
    tokio::task::yield_now().await;
    locks.close_within(Duration::from_secs(10)).await?;
    assert_eq!(impatient.await.expect("no panic").unwrap_err().kind(), ErrorKind::Timeout);
    Ok(())
}

#[tokio::test]
async fn a_closed_client_keeps_no_session_however_long_its_handles_live() -> Done {
    for is_open in [true, false] {
        let how = if is_open { How::CloseIsCounted } else { How::OpenWaitsForTheGate };
        let (sick, locks) = Sick::locks(how, Options::new())?;
        let mutex = locks.mutex("m")?;
        let asking = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.lock().await?.release().await?.confirmed() }
        });
        sick.until_opening().await;
        if is_open {
            asking.await.expect("no panic")?;
            locks.close().await?;
        } else {
            let closing = tokio::spawn({
                let locks = locks.clone();
                async move { locks.close().await }
            });
            tokio::task::yield_now().await;
            sick.gate.notify_one();
            closing.await.expect("no panic")?;
            let _ = asking.await.expect("no panic");
        }
        until("the session has gone", async || !sick.keeps_a_session()).await;
        drop((mutex, locks));
    }
    Ok(())
}

#[tokio::test]
async fn a_session_that_opens_after_its_client_was_closed_is_closed_too() -> Done {
    let (sick, locks) = Sick::locks(How::OpenWaitsForTheGate, Options::new())?;
    let waiting = waiter(&locks, "m");
    sick.until_opening().await;
    locks.close().await?;
    assert_eq!(waiting.await.expect("no panic").unwrap_err().kind(), ErrorKind::Closed);
    sick.gate.notify_one();
    until("it is closed", async || sick.closes.load(Ordering::Relaxed) == 1).await;
    until("it has gone", async || !sick.keeps_a_session()).await;
    Ok(())
}

#[tokio::test]
async fn close_within_all_the_time_there_is_waits_for_the_store() -> Done {
    for is_open in [true, false] {
        let store = Store::new();
        let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
        b.mutex("other")?.lock().await?.release().await?.confirmed()?;
        if is_open {
            let _held = a.mutex("m")?.lock().await?;
        }
        store.faults().delay(Duration::from_millis(50));
        let asking = tokio::spawn({
            let mutex = a.mutex("n")?;
            async move { mutex.lock().await.map(drop) }
        });
        tokio::task::yield_now().await; // the request is under way
        a.close_within(Duration::MAX).await?;
        store.faults().heal();
        assert!(b.mutex("m")?.try_lock().await?.is_some());
        let _ = asking.await.expect("no panic");
    }
    Ok(())
}

#[tokio::test]
async fn a_close_that_failed_can_be_asked_for_again() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    b.mutex("other")?.lock().await?.release().await?.confirmed()?;
    let _held = a.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    assert!(a.close_within(Duration::from_millis(50)).await.is_err(), "the store is away");
    store.faults().heal();
    a.close_within(Duration::from_secs(10)).await?;
    assert!(b.mutex("m")?.try_lock().await?.is_some(), "the leave was confirmed, and m is not free");
    Ok(())
}

#[tokio::test]
async fn one_clock_at_its_end_stops_no_other_session() -> Done {
    let other = Store::new().attach(Options::new().ttl(Duration::from_secs(1)))?;
    let held = other.mutex("other")?.lock().await?;
    let clock = tidelock_memory::Clock::manual();
    let locks = Store::with_clock(&clock).attach(Options::new())?;
    let _guard = locks.mutex("m")?.lock().await?;
    clock.advance(Duration::MAX);
    let began = Instant::now();
    until("the other one outlives its ttl, or is lost", async || {
        held.state() == State::Lost || began.elapsed() > Duration::from_millis(1_500)
    })
    .await;
    assert_ne!(held.state(), State::Lost, "nobody renewed it");
    tokio::time::timeout(Duration::from_secs(5), other.close()).await.expect("it ends")
}

#[tokio::test]
async fn a_release_that_nobody_polls_gives_back_though_its_leave_was_lost() -> Done {
    let (sick, locks) = Sick::locks(How::TheFirstLeaveIsLost, Options::new().ttl(Duration::from_secs(1)))?;
    let guard = locks.mutex("m")?.lock().await?;
    let mut releasing = Box::pin(guard.release());
    assert!(releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let other = sick.store.attach(Options::new())?;
    assert!(other.mutex("m")?.lock_within(Duration::from_secs(5)).await?.is_some(), "it is held by nobody");
    // It is polled again after all: it hears the result of that first leave.
    assert_eq!(releasing.await?.confirmed().unwrap_err().kind(), ErrorKind::Unavailable);
    locks.close().await
}

#[tokio::test]
async fn the_keeper_takes_no_leave_from_a_user_who_waits_for_it() -> Done {
    let options = Options::new().ttl(Duration::from_secs(1));
    let (_, locks) = Sick::locks(How::LeavesAreSlowAndTheirUsersOwn, options)?;
    for _ in 0..3 {
        locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // a renewal comes every 333 ms
    }
    locks.close().await
}

#[tokio::test]
async fn a_backend_that_panics_while_a_user_panics_ends_no_process() -> Done {
    let (_, locks) = Sick::locks(How::LeavePanics, Options::new())?;
    let guard = locks.mutex("m")?.lock().await?;
    let user = tokio::spawn(async move {
        let _guard = guard;
        panic!("on purpose: a user's own");
    });
    assert!(user.await.unwrap_err().is_panic());
    Ok(())
}

/// On a runtime where another task computes again and again, an acquire is late at each pause. It must not go on for
/// ever because of that.
#[tokio::test]
async fn an_acquire_ends_on_a_busy_runtime_too() -> Done {
    for is_try in [true, false] {
        let store = Store::new();
        let locks = store.attach(Options::new().command_deadline(Duration::from_millis(500)))?;
        locks.ping().await?; // opens the session
        let computing = tokio::spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(130));
                tokio::task::yield_now().await;
            }
        });
        store.faults().refuse_all();
        let (mutex, began) = (locks.mutex("m")?, std::time::Instant::now());
        let tried = async {
            match is_try {
                true => mutex.try_lock().await.map(drop),
                false => mutex.lock().await.map(drop),
            }
        };
        let refused = tokio::select! {
            refused = tried => refused,
            () = async { while began.elapsed() < Duration::from_secs(8) { tokio::task::yield_now().await; } } => Ok(()),
        };
        computing.abort();
        assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Unavailable), "a try: {is_try}");
    }
    Ok(())
}

/// The store may have ended it, or its backend may have given it up by the client's own clock.
#[tokio::test]
async fn a_guard_that_is_lost_with_its_session_says_only_what_is_known() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let guard = locks.mutex("m")?.lock().await?;
    store.faults().lose_sessions();
    until("it is lost", async || guard.state() == State::Lost).await;
    let error = guard.release().await.unwrap_err();
    let known = "its session was not renewed in time, or the store ended it";
    assert!(error.to_string().contains(known), "{error}");
    Ok(())
}
