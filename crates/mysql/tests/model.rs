//! Sessions on a server against the rule: their answers, and what they are told.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::sync::Arc;

use tidelock_conformance::sequences::{Evicted, agree};
use tidelock_mysql::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn lines_of_rows_do_what_the_rule_does() {
    agree(Arc::new(Store::open(&server::url()).unwrap()), Evicted::IsVoid).await;
}
