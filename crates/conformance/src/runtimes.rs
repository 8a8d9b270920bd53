//! Callers' runtimes without timers or I/O, or that nobody drives: locks work there, without avoidable panics. For the
//! tests of backends that keep a connection on each runtime.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // a test that goes wrong panics

use std::future::Future;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_core::backend::{Backend, connect};
use tidelock_core::{ErrorKind, Guard, Locks, Options, Owner, Reentrant};
use tokio::runtime::{Builder, Runtime};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How many panics 200 rounds of lock and release cause there.
fn panics(runtime: &Runtime, store: Arc<dyn Backend>) -> usize {
    let before = PANICS.load(Ordering::SeqCst);
    runtime.block_on(async {
        let locks = connect(store, Options::new()).await.unwrap();
        for _ in 0..200 {
            let guard = locks.mutex("of some runtime").unwrap().lock().await.unwrap();
            guard.release().await.unwrap().confirmed().unwrap();
            tokio::task::yield_now().await;
        }
        locks.close().await.unwrap();
    });
    PANICS.load(Ordering::SeqCst) - before
}

/// Locks on runtimes without timers or I/O. `store` is asked whether runtimes get connections of their own.
pub fn without_timers_or_io(store: impl Fn(bool) -> Arc<dyn Backend>) {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        hook(info);
    }));
    let build =
        |with: fn(&mut Builder) -> &mut Builder| with(&mut Builder::new_current_thread()).build().unwrap();
    assert_eq!(panics(&build(|builder| builder.enable_io()), store(true)), 0, "without timers");
    for runtime in [build(|builder| builder), build(|builder| builder.enable_time())] {
        assert_eq!(panics(&runtime, store(false)), 0, "without I/O, as the option says");
        // A runtime cannot be asked whether it has I/O. So it is tried once, in a task of its own.
        assert!(panics(&runtime, store(true)) <= 1, "without I/O");
    }
}

/// A runtime that does nothing unless it is driven, and a client that has a connection of its own there.
fn driven_by_hand(store: Arc<dyn Backend>, ttl: Duration) -> (Runtime, Arc<dyn Locks>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new().ttl(ttl).command_deadline(ttl * 10);
    let locks = runtime.block_on(connect(store, options)).unwrap();
    runtime.block_on(async {
        for _ in 0..64 {
            locks.mutex("often").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    (runtime, locks)
}

/// Tries often, because a held lock is handed over by a signal that may come to a runtime that stands still.
async fn take(locks: &Arc<dyn Locks>, name: &str) -> Guard {
    locks.mutex(name).unwrap().lock_within(Duration::from_secs(20)).await.unwrap().unwrap()
}

/// How long it takes to get this lock, which is given back.
async fn takes(locks: &Arc<dyn Locks>, name: &str) -> Duration {
    let began = Instant::now();
    let guard = take(locks, name).await;
    let took = began.elapsed();
    guard.release().await.unwrap().confirmed().unwrap();
    took
}

/// A join lies in a runtime that stands still. It is given up, and sent all the same.
pub fn a_join_that_lies_there_keeps_nobody_out(store: &Arc<dyn Backend>, ttl: Duration) {
    let (runtime, locks) = driven_by_hand(store.clone(), ttl);
    let (elsewhere, other) = driven_by_hand(store.clone(), ttl);
    let mutex = locks.mutex("left lying").unwrap();
    let mut asking = mutex.lock();
    runtime.block_on(async {
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    std::thread::sleep(ttl * 4); // its leave is done, and the server has forgotten the void claim
    runtime.block_on(async { tokio::time::sleep(ttl / 20).await }); // the join is sent now
    drop(asking);
    let took = elsewhere.block_on(takes(&other, "left lying"));
    assert!(took < ttl / 3, "it took {took:?}");
}

/// A join lies in a runtime that stands still, for longer than anybody remembers it. Its caller has given it up, or lies
/// there too.
pub fn a_join_that_lies_there_for_too_long_is_not_sent(store: &Arc<dyn Backend>, ttl: Duration) {
    for is_given_up in [true, false] {
        let name = format!("lay for too long, {is_given_up}");
        let (runtime, locks) = driven_by_hand(store.clone(), ttl);
        let (elsewhere, other) = driven_by_hand(store.clone(), ttl);
        let mutex = locks.mutex(&name).unwrap();
        let mut asking = Some(mutex.lock());
        runtime.block_on(async {
            let first = asking.as_mut().unwrap().as_mut();
            assert!(first.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
        if is_given_up {
            asking = None;
        }
        std::thread::sleep(ttl * 4); // its leave is done, and the server has forgotten the void claim
        elsewhere.block_on(takes(&other, &name));
        runtime.block_on(async { tokio::time::sleep(ttl / 20).await }); // the join would be sent now
        let line = elsewhere.block_on(other.inspect(&name)).unwrap();
        assert!(line.claims.is_empty(), "given up: {is_given_up}, and it stands there: {:?}", line.claims);
        drop(asking);
    }
}

/// A guard is dropped on a runtime that nobody drives.
pub fn a_guard_that_is_dropped_there_is_given_back(store: &Arc<dyn Backend>, ttl: Duration) {
    let (runtime, locks) = driven_by_hand(store.clone(), ttl);
    let (elsewhere, other) = driven_by_hand(store.clone(), ttl);
    let guard = runtime.block_on(take(&locks, "dropped"));
    runtime.block_on(async { drop(guard) });
    let took = elsewhere.block_on(takes(&other, "dropped"));
    assert!(took < ttl / 2, "it took {took:?}");
}

/// An owner's acquire lies in a runtime that stands still.
pub fn an_owner_waits_no_longer_than_a_ttl(store: &Arc<dyn Backend>, ttl: Duration) {
    let (runtime, locks) = driven_by_hand(store.clone(), ttl);
    let (elsewhere, _) = driven_by_hand(store.clone(), ttl);
    let (mutex, me) = (Reentrant::new(locks.mutex("of an owner").unwrap()), Owner::new());
    let mut asking = Box::pin(mutex.lock(&me));
    runtime.block_on(async {
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    let began = Instant::now();
    let impatient = elsewhere.block_on(mutex.lock_within(&me, ttl / 4));
    assert_eq!(impatient.unwrap_err().kind(), ErrorKind::Timeout, "it is not known to be held");
    let guard = elsewhere.block_on(mutex.lock(&me)).unwrap();
    let took = began.elapsed();
    elsewhere.block_on(guard.release()).unwrap().confirmed().unwrap();
    assert!(took < ttl * 2, "it took {took:?}");
}
