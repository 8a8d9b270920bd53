//! Why no claim is made by the server's Lock RPC.

use tidelock_etcd::etcd_client::LockOptions;

use crate::site;

/// A lease that ends while its lock request waits is granted the lock all the same on 3.4; later servers refuse it.
/// Either way the RPC says nothing of a void claim, and a token is not in its answer.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_lock_rpc_grants_to_a_lease_that_has_ended_or_refuses_it() {
    let mut etcd = site::plain().await;
    let name = site::namespace("lock rpc");
    let holder = etcd.lease_grant(600, None).await.unwrap().id();
    let held = etcd.lock(name.clone(), Some(LockOptions::new().with_lease(holder))).await.unwrap();
    let waiter = etcd.lease_grant(600, None).await.unwrap().id();
    let waiting = tokio::spawn({
        let (mut etcd, name) = (etcd.clone(), name.clone());
        async move { etcd.lock(name, Some(LockOptions::new().with_lease(waiter))).await }
    });
    site::until("the second request stands in line", async || {
        let keys = etcd.lease_time_to_live(waiter, Some(with_keys())).await.ok()?;
        (!keys.keys().is_empty()).then_some(())
    })
    .await;
    etcd.lease_revoke(waiter).await.unwrap();
    etcd.unlock(held.key()).await.unwrap();
    let version = etcd.status().await.unwrap().version().to_owned();
    let answer = waiting.await.unwrap();
    if version.starts_with("3.4.") {
        let granted = answer.unwrap();
        let there = etcd.get(granted.key(), None).await.unwrap();
        assert_eq!(there.count(), 0, "the lock is granted, and nothing stands for it in the store");
    } else {
        println!("etcd {version} answers: {answer:?}");
    }
    etcd.lease_revoke(holder).await.unwrap();
}

fn with_keys() -> tidelock_etcd::etcd_client::LeaseTimeToLiveOptions {
    tidelock_etcd::etcd_client::LeaseTimeToLiveOptions::new().with_keys()
}
