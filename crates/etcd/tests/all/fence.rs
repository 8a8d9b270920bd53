//! The fence in a user's own transaction.

use std::time::Duration;

use tidelock_etcd::etcd_client::{Txn, TxnOp};
use tidelock_etcd::{Options, State};

use crate::site::{self, until};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_old_holders_write_is_refused_by_the_store_itself() {
    let (store, mut etcd) = (site::store(), site::plain().await);
    let options = Options::new().ttl(Duration::from_secs(600)).namespace(&site::namespace("fence"));
    let (old, new) =
        (store.connect(options.clone()).await.unwrap(), store.connect(options.clone()).await.unwrap());
    let data = format!("{} data", options.namespace);
    let guard = old.mutex("a/b").unwrap().lock().await.unwrap();
    let mine = store.fence(&options, "a/b", guard.claim(), guard.token()).unwrap();
    let write = |text: &str| Txn::new().when([mine.clone()]).and_then([TxnOp::put(data.clone(), text, None)]);
    assert!(etcd.txn(write("first")).await.unwrap().succeeded());

    // An operator takes the holder out of the line. Its write is on its way already.
    assert!(new.evict("a/b", guard.claim()).await.unwrap());
    let next = new.mutex("a/b").unwrap().lock().await.unwrap();
    assert!(!etcd.txn(write("late")).await.unwrap().succeeded());
    assert!(next.token() > guard.token());
    let found = etcd.get(data.clone(), None).await.unwrap();
    assert_eq!(found.kvs()[0].value(), b"first");

    // Nor does a token open another claim's fence.
    let mixed = store.fence(&options, "a/b", next.claim(), guard.token()).unwrap();
    let txn = Txn::new().when([mixed]).and_then([TxnOp::put(data.clone(), "mixed", None)]);
    assert!(!etcd.txn(txn).await.unwrap().succeeded());
    etcd.delete(data, None).await.unwrap();
    next.release().await.unwrap();
    until("the holder learns of it", async || {
        (guard.state() == State::Lost || old.close().await.is_ok()).then_some(())
    })
    .await;
    new.close().await.unwrap();
}
