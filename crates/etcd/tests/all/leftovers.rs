//! What is left of names, clients and claims that were given up.

use std::sync::Arc;
use std::time::Duration;

use tidelock_etcd::backend::{Backend, Leave, Patience, Shard};
use tidelock_etcd::etcd_client::{GetOptions, PutOptions, Txn, TxnOp};
use tidelock_etcd::{ErrorKind, Locks, Options};
use tokio::task::JoinSet;

use crate::site::{self, name, until};
use tidelock_conformance::callers::Caller;

async fn keys(prefix: &str) -> Vec<String> {
    let all = GetOptions::new().with_prefix().with_keys_only();
    let got = site::plain().await.get(prefix, Some(all)).await.unwrap();
    got.kvs().iter().map(|key| key.key_str().unwrap().to_owned()).collect()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn ten_thousand_used_names_leave_nothing() {
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("names"));
    let locks = site::store().connect(options.clone()).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let locks: Arc<dyn Locks> = locks.clone();
        tasks.spawn(async move {
            for number in (task..10_000).step_by(64) {
                let name = format!("name {number}");
                match number % 3 {
                    0 => locks.mutex(&name).unwrap().lock().await.unwrap().release().await.unwrap(),
                    1 => locks.rwlock(&name).unwrap().write().await.unwrap().release().await.unwrap(),
                    _ => {
                        locks.semaphore(&name, 3).unwrap().acquire(2).await.unwrap().release().await.unwrap()
                    }
                };
            }
        });
    }
    tasks.join_all().await;
    let left = keys(&options.namespace).await;
    assert!(left.len() == 1 && left[0].ends_with("/label"), "{left:?}");
    locks.close().await.unwrap();
    assert_eq!(keys(&options.namespace).await, [""; 0]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_session_is_one_lease_and_its_close_leaves_none() {
    let options = site::options("lease");
    let caller = Caller::open(&site::store(), 1, &options).await;
    let mut etcd = site::plain().await;
    let id = caller.id.get().cast_signed();
    for number in 0..10 {
        site::join(&caller, &caller.mutex(&name(&format!("{number}")), number)).await;
    }
    let lease = etcd
        .lease_time_to_live(id, Some(tidelock_etcd::etcd_client::LeaseTimeToLiveOptions::new().with_keys()));
    assert_eq!(lease.await.unwrap().keys().len(), 11); // and the label
    caller.session.close().await.unwrap();
    assert!(etcd.lease_time_to_live(id, None).await.unwrap().ttl() < 0);
    assert_eq!(keys(&options.namespace).await, [""; 0]);
}

/// A join that arrives after its leave finds the key of the void claim, and a renewal deletes that key after a ttl.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_keys_of_void_claims_are_deleted_in_the_end() {
    let options = Options::new().ttl(Duration::from_secs(2)).namespace(&site::namespace("void"));
    let [holder, other] =
        [Caller::open(&site::store(), 11, &options).await, Caller::open(&site::store(), 12, &options).await];
    let line = name("line");
    let claim = other.mutex(&line, 7);
    site::join(&other, &claim).await;
    holder.session.leave(&line, claim.id, Leave::Void).await.unwrap();
    let voids =
        || async { keys(&options.namespace).await.into_iter().filter(|key| key.ends_with("/7")).count() };
    assert_eq!(voids().await, 1);
    let again = other.session.join(&claim, Patience::Wait).await.unwrap();
    assert_eq!(again, tidelock_etcd::backend::Place::Gone);
    until("the key is deleted", async || {
        for caller in [&holder, &other] {
            caller.session.renew(Shard(0), &[]).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        (voids().await == 0).then_some(())
    })
    .await;
    for caller in [holder, other] {
        caller.session.close().await.unwrap();
    }
}

/// However many joins were given up, one renewal deletes all keys that are a ttl old: otherwise they only become more.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn one_renewal_deletes_all_old_keys_of_void_claims() {
    let options = Options::new().ttl(Duration::from_secs(2)).namespace(&site::namespace("voids"));
    let caller = Caller::open(&site::store(), 1, &options).await;
    let (mut etcd, lease) = (site::plain().await, caller.id.get().cast_signed());
    let key = |number: u64| format!("{}//{}/{number}", options.namespace, caller.id);
    let put = |number: u64| TxnOp::put(key(number), "", Some(PutOptions::new().with_lease(lease)));
    for first in (0..3_000).step_by(100) {
        etcd.txn(Txn::new().and_then((first..first + 100).map(put).collect::<Vec<_>>())).await.unwrap();
    }
    caller.session.renew(Shard(0), &[]).await.unwrap(); // finds them
    tokio::time::sleep(caller.session.ttl() / 2).await;
    caller.session.renew(Shard(0), &[]).await.unwrap();
    tokio::time::sleep(caller.session.ttl() / 2 + Duration::from_millis(200)).await;
    caller.session.renew(Shard(0), &[]).await.unwrap();
    let began = std::time::Instant::now();
    while keys(&options.namespace).await.len() > 1 {
        assert!(began.elapsed() < caller.session.ttl() / 2, "{} keys", keys(&options.namespace).await.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    caller.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_lease_that_an_operator_revokes_ends_the_session() {
    let options = site::options("revoked");
    let store = site::store();
    let caller = Caller::open(&store, 1, &options).await;
    site::plain().await.lease_revoke(caller.id.get().cast_signed()).await.unwrap();
    let renewed = caller.session.renew(Shard(0), &[]).await;
    assert_eq!(renewed.unwrap_err().kind(), tidelock_etcd::ErrorKind::Lost);
    let claim = caller.mutex(&name("line"), 1);
    let joined = caller.session.join(&claim, Patience::Wait).await;
    assert_eq!(joined.unwrap_err().kind(), tidelock_etcd::ErrorKind::Lost);
    caller.session.close().await.unwrap();
    assert!(store.store().starts_with("etcd "));
}

/// Two leaves in one transaction see each other's claim, so neither forgets the size; a renewal does.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_size_goes_with_the_last_claims_of_its_client() {
    let options = Options::new().ttl(Duration::from_secs(3)).namespace(&site::namespace("size"));
    let locks = site::store().connect(options.clone()).await.unwrap();
    let permits = locks.semaphore("s", 3).unwrap();
    let (a, b) = (permits.acquire(1).await.unwrap(), permits.acquire(1).await.unwrap());
    permits.resize(5).await.unwrap();
    let refused = locks.mutex("s").unwrap().try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KindMismatch);
    let (one, other) = tokio::join!(a.release(), b.release());
    assert!(one.is_ok() && other.is_ok());
    let line = format!("{}/s/", options.namespace);
    until("nothing is left of the line", async || keys(&line).await.is_empty().then_some(())).await;
    locks.close().await.unwrap();
}
