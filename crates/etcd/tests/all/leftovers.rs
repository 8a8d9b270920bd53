//! What is left of names, clients and claims that were given up.

use std::sync::Arc;
use std::time::Duration;

use tidelock_etcd::backend::{Backend, Leave, Patience, Place, Shard};
use tidelock_etcd::etcd_client::{GetOptions, PutOptions, Txn, TxnOp};
use tidelock_etcd::{ErrorKind, Locks, Options, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::site::{self, DENIED, Middleman, is_held, join, name, until, weight};
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

/// The copy of a resize goes with the client's last claim in that line. It must not count those that could not even read.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_that_may_not_read_its_line_is_forgotten() {
    let middleman = Middleman::before(site::host()).await;
    let (options, keeper) = (site::options("may not read"), Runtime::new().unwrap());
    let (store, connects) = (Store::open(&middleman.url()).unwrap(), options.clone());
    let a = keeper.spawn(async move { Caller::open(&store, 1, &connects).await }).await.unwrap();
    let b = Caller::open(&site::store(), 2, &options).await;
    let often = a.mutex(&name("often"), 9);
    for _ in 0..64 {
        // This runtime gets a lane of its own.
        join(&a, &often).await;
        a.session.leave(&often.name, often.id, Leave::Done).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for is_tried in [false, true] {
        let line = name(&format!("line {is_tried}"));
        assert!(is_held(join(&a, &a.permits(&line, 1, 1, 5)).await));
        a.session.resize(&line, weight(5), weight(4)).await.unwrap();
        assert!(is_held(join(&b, &b.permits(&line, 1, 3, 4)).await));
        let (claim, patience, asked) = match is_tried {
            true => (a.permits(&line, 3, 1, 4), Patience::Now, "/Txn"),
            false => (a.permits(&line, 3, 3, 2), Patience::Wait, "/Range"),
        };
        if is_tried {
            let busy = a.session.join(&a.permits(&line, 2, 1, 4), Patience::Now).await;
            assert_eq!(busy.unwrap(), Place::Refused);
        }
        middleman.refuses(&[asked], DENIED);
        assert_eq!(a.session.join(&claim, patience).await.unwrap_err().kind(), ErrorKind::Denied);
        middleman.heals();
        a.session.leave(&line, a.claim(1), Leave::Done).await.unwrap();
        let mut left = keys(&options.namespace).await;
        left.retain(|key| key.contains("/size-"));
        assert_eq!(left, [""; 0], "tried: {is_tried}");
    }
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
    keeper.shutdown_background();
}

/// The client library does not read what is too long. The join was carried out all the same.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_whose_answer_cannot_be_read_is_given_back() {
    let mut middleman = Middleman::before(site::host()).await;
    let locks = Store::open(&middleman.url()).unwrap().connect(site::options("not read")).await.unwrap();
    middleman.stops("/Txn", b"/m/");
    let mutex = locks.mutex("m").unwrap();
    let asking = tokio::spawn(async move { mutex.lock().await.map(drop) });
    let join = middleman.stopped().await;
    middleman.heals();
    join.pass_but_say(("11", "Error, decoded message length too large")).await;
    assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Protocol);
    until("it is given back", async || locks.inspect("m").await.unwrap().claims.is_empty().then_some(()))
        .await;
    locks.close().await.unwrap();
}
