//! Lines of keys against the rule.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::sync::Arc;

use tidelock_conformance::sequences::{Evicted, agree};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn lines_of_keys_do_what_the_rule_does() {
    agree(Arc::new(site::store()), Evicted::IsVoid).await;
}
