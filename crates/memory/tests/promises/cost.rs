//! What it costs.

use std::time::Instant;

use tidelock_memory::{Leave, Patience, Store};

use crate::client::{Client, now};

#[test]
#[ignore = "a measurement, for release builds"]
fn nanoseconds_of_a_join_and_a_leave() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let mut claim = client.mutex(0, "stock:42");
    for round in 0..5 {
        let start = Instant::now();
        let count = 1_000_000;
        for _ in 0..count {
            claim.id.number += 1;
            now(client.session.join(&claim, Patience::Wait)).unwrap();
            now(client.session.leave(&claim.name, claim.id, Leave::Done)).unwrap();
        }
        println!(
            "round {round}: {:.0} ns",
            start.elapsed().as_nanos() as f64 / f64::from(count)
        );
    }
}
