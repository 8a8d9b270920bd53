//! The store under every interleaving of a few threads, within loom's bound.
//!
//! A client here takes the place of core: it is told of grants by [`Signals`](tidelock_core::backend::Signals), keeps a waker, and
//! waits for its turn as a future. A scenario prepares a line, lets two or three threads act, and checks what must
//! hold afterwards, in whichever order they came. A waiter that is never woken is a deadlock, which loom reports.

mod client;
mod scenarios;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a scenario in every interleaving, and prints how many there were.
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
