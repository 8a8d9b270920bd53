//! Claims that somebody else takes out of their line. The next renewal is ten seconds away.

use std::sync::Arc;
use std::time::Duration;

use tidelock_etcd::etcd_client::DeleteOptions;
use tidelock_etcd::{Guard, Locks, Options, Result};
use tokio::task::JoinHandle;

use crate::site::{self, until};

const SOON: Duration = Duration::from_secs(3);

fn options(what: &str) -> Options {
    Options::new().ttl(Duration::from_secs(30)).namespace(&site::namespace(what))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_evicted_holder_and_an_evicted_waiter_are_told_at_once() {
    let options = options("evicted");
    let [operator, a, b] = three(&options).await;
    let guard = a.mutex("m").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = b.mutex("m").unwrap();
        async move { mutex.lock().await.map(drop) }
    });
    let waiter =
        until("it waits", async || Some(operator.inspect("m").await.ok()?.waiters().next()?.id)).await;
    assert!(operator.evict("m", waiter).await.unwrap());
    // It asks again.
    let another = until("it stands in line anew", async || {
        Some(operator.inspect("m").await.ok()?.waiters().next()?.id)
    });
    let another = tokio::time::timeout(SOON, another).await.expect("nobody told the waiter");
    assert_ne!(another, waiter);
    assert!(operator.evict("m", guard.claim()).await.unwrap());
    assert!(tokio::time::timeout(SOON, guard.lost()).await.is_ok(), "nobody told the holder");
    waiting.await.unwrap().unwrap();
    for locks in [operator, a, b] {
        locks.close().await.unwrap();
    }
}

/// As by hand, with `etcdctl del`: nobody is told.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_whose_key_was_deleted_gets_no_turn() {
    let options = options("deleted");
    let [a, b, c] = three(&options).await;
    let held = a.mutex("m").unwrap().lock().await.unwrap();
    // The second is of another client, and the third of the same client as the first.
    let (deleted, own) = (waits(&a, &b, 1).await, waits(&a, &a, 2).await);
    let next = waits(&a, &c, 3).await;
    let doomed: Vec<_> = a.inspect("m").await.unwrap().waiters().take(2).map(|waiter| waiter.id).collect();
    for id in doomed {
        let slot = id.number % (1 << 20);
        let key = format!("{}/m/{}-{slot}-", options.namespace, id.session);
        let gone = site::plain().await.delete(key, Some(DeleteOptions::new().with_prefix())).await.unwrap();
        assert_eq!(gone.deleted(), 1);
    }
    held.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, next).await.expect("the next one waits").unwrap().unwrap();
    // Both find out by the look before their turn, and ask again.
    until("they stand in line anew", async || {
        (a.inspect("m").await.ok()?.waiters().count() == 2).then_some(())
    })
    .await;
    assert!(!deleted.is_finished() && !own.is_finished(), "a waiter whose key is gone holds, too");
    guard.release().await.unwrap();
    let takes =
        async |waiter: JoinHandle<Result<Guard>>| waiter.await.unwrap().unwrap().release().await.unwrap();
    tokio::join!(takes(deleted), takes(own));
    for locks in [a, b, c] {
        locks.close().await.unwrap();
    }
}

async fn three(options: &Options) -> [Arc<dyn Locks>; 3] {
    let store = site::store();
    let connect = || store.connect(options.clone());
    [connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap()]
}

/// A waiter of this client stands in line as the `nth`.
async fn waits(watcher: &Arc<dyn Locks>, locks: &Arc<dyn Locks>, nth: usize) -> JoinHandle<Result<Guard>> {
    let mutex = locks.mutex("m").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it waits", async || (watcher.inspect("m").await.ok()?.waiters().count() == nth).then_some(()))
        .await;
    waiting
}
