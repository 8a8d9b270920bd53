//! Callers' runtimes that can do less than others: locks work there, and nothing panics that need not.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

use site::url;
use tidelock_redis::{Options, Store};
use tokio::runtime::{Builder, Runtime};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How many panics 200 pairs of take and give back have cost there.
fn panics(runtime: &Runtime, store: Store) -> usize {
    let before = PANICS.load(Ordering::SeqCst);
    runtime.block_on(async {
        let locks = store.connect(Options::new()).await.unwrap();
        for _ in 0..200 {
            let guard = locks.mutex("of some runtime").unwrap().lock().await.unwrap();
            guard.release().await.unwrap();
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
    assert_eq!(panics(&build(|builder| builder.enable_io()), store()), 0, "without timers");
    for runtime in [build(|builder| builder), build(|builder| builder.enable_time())] {
        assert_eq!(
            panics(&runtime, store().connection_for_each_runtime(false)),
            0,
            "without I/O, as was said"
        );
        // It cannot be asked whether it has any. It is tried once, in a task of its own.
        assert!(panics(&runtime, store()) <= 1, "without I/O");
    }
}
