//! Sessions on a server against the rule: their answers, and what they are told.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidelock_conformance::sequences::{Evicted, agree};
use tidelock_mysql::backend::{Claim, Layer, Layered, Leave, Patience, Place, Session};
use tidelock_mysql::{ClaimId, Name, Result, Store};

/// Gives every claim back before a session is closed, as core does.
#[derive(Debug, Default)]
struct GivesBack(Mutex<Vec<(usize, Name, ClaimId)>>);

fn address(session: &Arc<dyn Session>) -> usize {
    Arc::as_ptr(session).cast::<()>().addr()
}

#[async_trait]
impl Layer for GivesBack {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.0.lock().unwrap().push((address(to), claim.name.clone(), claim.id));
        to.join(claim, patience).await
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        let is_its = |joined: &mut (usize, Name, ClaimId)| joined.0 == address(to);
        let its: Vec<_> = self.0.lock().unwrap().extract_if(.., is_its).collect();
        for (_, name, id) in its {
            to.leave(&name, id, Leave::Done).await?;
        }
        to.close().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn lines_of_rows_do_what_the_rule_does() {
    let store = Arc::new(Store::open(&server::url()).unwrap());
    // Nothing here is about what a crash leaves, so nothing waits for the disk.
    server::run("SET GLOBAL innodb_flush_log_at_trx_commit = 0").await;
    agree(Arc::new(Layered::new(store, Arc::new(GivesBack::default()))), Evicted::IsVoid).await;
    server::run("SET GLOBAL innodb_flush_log_at_trx_commit = 1").await;
}
