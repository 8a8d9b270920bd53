//! What a waiter is told, and when.

use std::sync::Arc;
use std::time::Duration;

use tidelock_mysql::{Guard, Locks, Options};
use tokio::runtime::{Builder, Runtime};

use crate::server::{client_with, run};

/// Without a ring, a waiter looks after a quarter of this.
const TTL: Duration = Duration::from_secs(60);
/// So that the runtime has a connection of its own.
const OFTEN: usize = 200;

/// What crashed before leaves nothing behind that counts.
fn namespace() -> String {
    format!("early grants {}", std::process::id())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs this elsewhere, while the calling thread stands still.
fn meanwhile<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    std::thread::spawn(|| runtime().block_on(work)).join().unwrap()
}

async fn client() -> Arc<dyn Locks> {
    client_with(Options::new().namespace(&namespace()).ttl(TTL)).await
}

/// Whether somebody waits for the name, or does within a moment.
async fn is_waited_for() -> bool {
    for _ in 0..20 {
        let waiting = format!(
            "SELECT COUNT(*) FROM tidelock_line WHERE name = '{}\\0busy' AND waiters <> ''",
            namespace()
        );
        if run(&waiting).await[0][0] == "1" {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// Gives the name back, and stays until the waiter's client has heard the bell.
async fn pass_on(guard: Guard) {
    guard.release().await.unwrap();
    // Too short a time would only let the fault pass.
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// The runtime of the waiter stands still, so its client's watcher hears of the grant before the answer to the join is
/// read. The watcher listens because another claim of the client waits.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_grant_before_the_answer_to_its_join_is_told() {
    let here = runtime();
    let (ours, theirs) = here.block_on(async { (client().await, client().await) });
    here.block_on(async {
        for _ in 0..OFTEN {
            ours.mutex("often").unwrap().lock().await.unwrap().release().await.unwrap();
        }
    });
    let elsewhere = runtime();
    let (parked, busy) = elsewhere.block_on(async {
        (
            theirs.mutex("parked").unwrap().lock().await.unwrap(),
            theirs.mutex("busy").unwrap().lock().await.unwrap(),
        )
    });
    let waits = here.spawn({
        let parked = ours.mutex("parked").unwrap();
        async move { parked.lock().await.unwrap().release().await.unwrap() }
    });
    here.block_on(async {
        tokio::time::sleep(Duration::from_millis(100)).await; // the first claim waits, and the watcher listens
        let lock = tokio::spawn({
            let busy = ours.mutex("busy").unwrap();
            async move { busy.lock().await.unwrap() }
        });
        while !meanwhile(is_waited_for()) {
            for _ in 0..20 {
                tokio::task::yield_now().await; // the join is sent, and its answer is probably not read
            }
        }
        meanwhile(pass_on(busy));
        let guard = tokio::time::timeout(Duration::from_secs(2), lock).await;
        guard.expect("nobody told the waiter").unwrap().release().await.unwrap();
    });
    elsewhere.block_on(parked.release()).unwrap();
    here.block_on(waits).unwrap();
    here.block_on(async {
        ours.close().await.unwrap();
        theirs.close().await.unwrap();
    });
}
