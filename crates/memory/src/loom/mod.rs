//! The store under every interleaving of a few threads, as far as loom's bound goes.
//!
//! A client here stands where core stands: it is told of grants by [`Signals`](tidelock::Signals), keeps a waker,
//! and waits for its turn as a future. A scenario sets the scene, lets two or three threads act, and says what must
//! hold afterwards, whoever came first; a waiter that nobody wakes is a deadlock, which loom reports.

mod client;
mod scenarios;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a scenario in every interleaving, and says how many there were.
fn explore(scenario: &str, run: impl Fn() + Send + Sync + 'static) {
    let iterations = Arc::new(AtomicU64::new(0));
    let count = iterations.clone();
    let mut model = ::loom::model::Builder::new(); // reads LOOM_MAX_PREEMPTIONS
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        run();
    });
    println!("loom: {scenario}: {} iterations", iterations.load(Ordering::Relaxed));
}
