//! Sessions that somebody else ends.

use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::Shard;
use tidelock_etcd::{ErrorKind, Options};

use crate::site;

/// As by an operator, or by a leader of before that goes on after a pause. The next renewal is ten seconds away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_revoked_lease_is_told_before_the_next_renewal() {
    let options = Options::new().ttl(Duration::from_secs(30)).namespace(&site::namespace("revoked"));
    let locks = site::store().connect(options).await.unwrap();
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    let lease = guard.claim().session.get().cast_signed();
    site::plain().await.lease_revoke(lease).await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(3), guard.lost()).await;
    assert!(lost.is_ok(), "nobody told the holder");
    assert!(locks.mutex("m").unwrap().lock_within(Duration::from_secs(5)).await.unwrap().is_some());
    locks.close().await.unwrap();
}

/// A keep-alive may be answered just before the lease is revoked.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_counts_only_while_what_is_on_the_lease_stands() {
    let options = site::options("label");
    let caller = Caller::open(&site::store(), 1, &options).await;
    caller.session.renew(Shard(0), &[]).await.unwrap();
    let label = format!("{}//{}/label", options.namespace, caller.id);
    let deleted = site::plain().await.delete(label, None).await.unwrap();
    assert_eq!(deleted.deleted(), 1);
    let error = caller.session.renew(Shard(0), &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    caller.session.close().await.unwrap();
}
