//! Callers' runtimes without timers or I/O, or that nobody drives.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use tidelock_conformance::runtimes;
use tidelock_mysql::Store;
use tidelock_mysql::backend::Backend;

const TTL: Duration = Duration::from_secs(2);

fn open() -> Store {
    Store::open(&server::url()).unwrap()
}

fn store() -> Arc<dyn Backend> {
    Arc::new(open())
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
fn a_join_that_lay_in_a_blocked_runtime_for_too_long_is_not_sent() {
    runtimes::a_join_that_lies_there_for_too_long_is_not_sent(&store(), TTL);
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
