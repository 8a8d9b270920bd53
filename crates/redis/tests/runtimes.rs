//! Callers' runtimes without timers or I/O, or that nobody drives: locks work there, without avoidable panics.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::future::Future;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use site::{hold, url};
use tidelock_redis::{ErrorKind, Locks, Options, Owner, Reentrant, Store};
use tokio::runtime::{Builder, Runtime};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How many panics 200 rounds of lock and release cause there.
fn panics(runtime: &Runtime, store: &Store) -> usize {
    let before = PANICS.load(Ordering::SeqCst);
    runtime.block_on(async {
        let locks = store.connect(Options::new()).await.unwrap();
        for _ in 0..200 {
            let guard = locks.mutex("of some runtime").unwrap().lock().await.unwrap();
            guard.release().await.unwrap().confirmed().unwrap();
            tokio::task::yield_now().await;
        }
        locks.close().await.unwrap();
    });
    PANICS.load(Ordering::SeqCst) - before
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_without_timers_or_io_serves_as_well() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        hook(info);
    }));
    let store = || Store::open(&url()).unwrap();
    let build =
        |with: fn(&mut Builder) -> &mut Builder| with(&mut Builder::new_current_thread()).build().unwrap();
    assert_eq!(panics(&build(|builder| builder.enable_io()), &store()), 0, "without timers");
    for runtime in [build(|builder| builder), build(|builder| builder.enable_time())] {
        assert_eq!(
            panics(&runtime, &store().connection_for_each_runtime(false)),
            0,
            "without I/O, as the option says"
        );
        // A runtime cannot be asked whether it has I/O. So it is tried once, in a task of its own.
        assert!(panics(&runtime, &store()) <= 1, "without I/O");
    }
}

const TTL: Duration = Duration::from_secs(1);

/// A runtime that does nothing unless it is driven, and a client that has a connection of its own there.
fn driven_by_hand() -> (Runtime, Arc<dyn Locks>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new().ttl(TTL).command_deadline(TTL * 10);
    let locks = runtime.block_on(Store::open(&url()).unwrap().connect(options)).unwrap();
    runtime.block_on(async {
        for _ in 0..64 {
            locks.mutex("often").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    (runtime, locks)
}

/// How long it takes to get this lock, which is given back.
async fn takes(locks: &Arc<dyn Locks>, name: &str) -> Duration {
    let began = Instant::now();
    let guard = hold(locks, name).await.unwrap();
    let took = began.elapsed();
    guard.release().await.unwrap().confirmed().unwrap();
    took
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_join_that_lay_in_a_blocked_runtime_keeps_nobody_out_once_it_is_dropped() {
    let (runtime, locks) = driven_by_hand();
    let (elsewhere, other) = driven_by_hand();
    let mutex = locks.mutex("left lying").unwrap();
    let mut asking = mutex.lock();
    runtime.block_on(async {
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    std::thread::sleep(TTL * 4); // its leave is done, and the server has forgotten the void claim
    runtime.block_on(async { tokio::time::sleep(TTL / 20).await }); // the join is sent now
    drop(asking);
    let took = elsewhere.block_on(takes(&other, "left lying"));
    assert!(took < TTL / 3, "it took {took:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_guard_that_was_dropped_on_a_runtime_that_nobody_drives_is_given_back() {
    let (runtime, locks) = driven_by_hand();
    let (elsewhere, other) = driven_by_hand();
    let guard = runtime.block_on(locks.mutex("dropped").unwrap().lock()).unwrap();
    runtime.block_on(async { drop(guard) });
    let took = elsewhere.block_on(takes(&other, "dropped"));
    assert!(took < TTL / 2, "it took {took:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_that_stands_still_keeps_the_others_of_an_owner_out_no_longer_than_a_ttl() {
    let (runtime, locks) = driven_by_hand();
    let (elsewhere, _) = driven_by_hand();
    let (mutex, me) = (Reentrant::new(locks.mutex("of an owner").unwrap()), Owner::new());
    let mut asking = Box::pin(mutex.lock(&me));
    runtime.block_on(async {
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    let began = Instant::now();
    let impatient = elsewhere.block_on(mutex.lock_within(&me, TTL / 4));
    assert_eq!(impatient.unwrap_err().kind(), ErrorKind::Timeout, "it is not known to be held");
    let guard = elsewhere.block_on(mutex.lock(&me)).unwrap();
    let took = began.elapsed();
    elsewhere.block_on(guard.release()).unwrap().confirmed().unwrap();
    assert!(took < TTL * 2, "it took {took:?}");
}
