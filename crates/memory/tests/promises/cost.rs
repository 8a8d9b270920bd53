//! What it costs.

use std::time::Instant;

use tidelock_memory::{Leave, Patience, Store};

use crate::client::{Client, now};

/// Nanoseconds of one run of `work`, in the quickest of many short rounds: what it takes when nobody is in the way.
fn quickest(mut work: impl FnMut()) -> f64 {
    let runs = 2_000;
    let round = || {
        let start = Instant::now();
        (0..runs).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(runs)
    };
    std::iter::repeat_with(round).take(300).fold(f64::MAX, f64::min)
}

#[test]
#[ignore = "a measurement, for release builds"]
fn nanoseconds_of_a_join_and_a_leave() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let mut claim = client.mutex(0, "stock:42");
    let pair = quickest(|| {
        claim.id.number += 1;
        now(client.session.join(&claim, Patience::Wait)).unwrap();
        now(client.session.leave(&claim.name, claim.id, Leave::Done)).unwrap();
    });
    let clock = tidelock_memory::boot_clock();
    let reading = quickest(|| drop(std::hint::black_box(clock.now())));
    let mutex = std::sync::Arc::new(tokio::sync::Mutex::new(()));
    let tokio = quickest(|| drop(now(mutex.clone().lock_owned())));
    println!(
        "join and leave: {pair:.0} ns; a reading of the clock: {reading:.0} ns; tokio's lock: {tokio:.0} ns"
    );
}
