//! Callers' runtimes without timers or I/O, or that nobody drives.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_conformance::runtimes;
use tidelock_etcd::backend::Backend;
use tidelock_etcd::{Locks, Options, Store};
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = Duration::from_secs(2); // the server grants no less

fn store() -> Arc<dyn Backend> {
    Arc::new(open())
}

fn open() -> Store {
    site::store()
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_without_timers_or_io_serves_as_well() {
    runtimes::without_timers_or_io(|has_own| Arc::new(open().connection_for_each_runtime(has_own)));
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_join_that_lay_in_a_blocked_runtime_keeps_nobody_out_once_it_is_dropped() {
    runtimes::a_join_that_lies_there_keeps_nobody_out(&store(), TTL);
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_guard_that_was_dropped_on_a_runtime_that_nobody_drives_is_given_back() {
    runtimes::a_guard_that_is_dropped_there_is_given_back(&store(), TTL);
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_that_stands_still_keeps_the_others_of_an_owner_out_no_longer_than_a_ttl() {
    runtimes::an_owner_waits_no_longer_than_a_ttl(&store(), TTL);
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_that_nobody_drives_any_more_serves_again() {
    runtimes::one_that_nobody_drives_any_more_serves_again(&store(), TTL);
}

/// A runtime that does nothing unless it is driven, and a client that has a lane of its own there.
fn driven_by_hand() -> (Runtime, Arc<dyn Locks>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options =
        Options::new().ttl(TTL * 10).command_deadline(TTL * 5).namespace(&site::namespace("by hand"));
    let locks = runtime.block_on(open().connect(options)).unwrap();
    runtime.block_on(async {
        for _ in 0..64 {
            locks.mutex("often").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    (runtime, locks)
}

/// Nothing that is asked there is sent. The second join waits behind the first one, which is given up.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn who_waits_behind_another_on_a_runtime_that_nobody_drives_is_served_with_it() {
    let (runtime, locks) = driven_by_hand();
    let [first, second] = ["first", "second"].map(|name| locks.mutex(name).unwrap());
    let (handle, mut asking, mut waiting) = (runtime.handle(), first.lock(), second.lock());
    handle.block_on(async {
        for join in [&mut asking, &mut waiting] {
            assert!(join.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(asking);
    });
    let began = Instant::now();
    let guard = handle.block_on(waiting).unwrap();
    let took = began.elapsed();
    handle.block_on(guard.release()).unwrap().confirmed().unwrap();
    assert!(took < TTL, "it took {took:?}");
}

/// A runtime is blocked while a guard's leave is under way there, and a join waits behind that.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_join_that_waits_in_a_blocked_runtime_is_not_overtaken() {
    let (runtime, locks) = driven_by_hand();
    let elsewhere = Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(locks.mutex("given back").unwrap().lock()).unwrap();
    let mutex = locks.mutex("line").unwrap();
    let mut earlier = mutex.lock();
    runtime.block_on(async {
        drop(guard);
        assert!(earlier.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    elsewhere.block_on(async {
        site::until("it stands in line", async || {
            let line = locks.inspect("line").await.unwrap();
            (!line.claims.is_empty()).then_some(())
        })
        .await;
        let later = mutex.lock_within(TTL / 10).await.unwrap();
        assert!(later.is_none(), "the later one came first");
    });
    let guard = runtime.block_on(earlier).unwrap();
    runtime.block_on(guard.release()).unwrap().confirmed().unwrap();
}
