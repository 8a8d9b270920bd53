//! Clients with so many claims, or such long names, that the list of their keys is too long for one answer as the client
//! library reads it.

use std::time::Duration;

use tidelock_conformance::{Proxy, Way};
use tidelock_etcd::backend::{Leave, Patience, Shard};
use tidelock_etcd::etcd_client::{LeaseGrantOptions, PutOptions, Txn, TxnOp};
use tidelock_etcd::{ClaimId, Options, Store};

use crate::site::{self, is_held, join, name, turn};
use tidelock_conformance::callers::Caller;

/// How many claims of the longest names there are. An answer of the client library has 4 MiB.
const MANY: u64 = 3_000;

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn however_many_claims_a_client_has_they_are_renewed() {
    let options = Options::new().ttl(Duration::from_secs(600)).namespace(&site::namespace("large"));
    let caller = Caller::open(&site::store(), 1, &options).await;
    let named = |number: u64| name(&format!("{}{number:04}", "/".repeat(508)));
    let claims: Vec<_> = (0..MANY).map(|number| caller.mutex(&named(number), number)).collect();
    for some in claims.chunks(500) {
        let joins = some.iter().map(|claim| caller.session.join(claim, Patience::Wait));
        for joined in futures_util::future::join_all(joins).await {
            joined.unwrap();
        }
    }
    let standing: Vec<_> = claims.iter().map(|claim| (claim.name.clone(), vec![claim.id])).collect();
    let renewal = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!(renewal.gone, [], "all of them stand there");
    // One that somebody deleted is found out.
    let (line, id) = (&standing[7].0, standing[7].1[0]);
    let other = Caller::open(&site::store(), 2, &options).await;
    other.session.leave(line, id, Leave::Done).await.unwrap();
    let renewal = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!(renewal.gone, [id]);
    // And so is one that nobody asked for.
    let (stray, asked) = standing[8..].split_first().unwrap();
    let renewal = caller.session.renew(Shard(0), asked).await.unwrap();
    assert!(renewal.strays.contains(&(stray.0.clone(), stray.1[0])) && renewal.gone.is_empty());
    for caller in [caller, other] {
        caller.session.close().await.unwrap();
    }
}

/// Their part of the store was deleted by hand. Whether a claim stands is asked 100 claims at a time, on a slow network, and
/// core gives up a renewal after a third of the ttl.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn however_many_claims_are_missing_the_renewal_counts() {
    let proxy = Proxy::to(site::host().parse().unwrap()).await.unwrap();
    let store = Store::open(&format!("etcd://{}", proxy.address())).unwrap();
    let options = Options::new().ttl(Duration::from_secs(9)).namespace(&site::namespace("missing"));
    let caller = Caller::open(&store, 1, &options.command_deadline(Duration::from_secs(9))).await;
    let id = |number| ClaimId { session: caller.id, number };
    let standing: Vec<_> = (0..4_000).map(|number| (name(&format!("n{number}")), vec![id(number)])).collect();
    proxy.delay(Way::Back, Duration::from_millis(150));
    let renewing = caller.session.renew(Shard(0), &standing);
    let renewal = tokio::time::timeout(caller.session.ttl() / 3, renewing).await;
    let renewal = renewal.expect("a third of the ttl is over").unwrap();
    assert_eq!(renewal.gone.len() + renewal.unsure.len(), standing.len());
    assert!(!renewal.gone.is_empty());
    proxy.heal();
    caller.session.close().await.unwrap();
}

/// All keys of a lease that ends are deleted at one revision, so they are one answer to a watch.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn however_many_claims_leave_a_line_at_once_the_next_is_told() {
    let options = site::options("crowd");
    let (line, mut etcd, lease) = (name(&"/".repeat(508)), site::plain().await, 0x0123_4567);
    let _ = etcd.lease_revoke(lease).await; // an earlier run may have failed
    etcd.lease_grant(600, Some(LeaseGrantOptions::new().with_id(lease))).await.unwrap();
    let key = |number: u64| {
        format!("{}/{}/{lease:016x}-{number}-s1.1", options.namespace, line.replace('/', "%2F"))
    };
    let on_lease = || Some(PutOptions::new().with_lease(lease));
    let put = |number: u64| TxnOp::put(key(number), number.to_string(), on_lease());
    for first in (0..MANY).step_by(100) {
        etcd.txn(Txn::new().and_then((first..first + 100).map(put).collect::<Vec<_>>())).await.unwrap();
    }
    let caller = Caller::open(&site::store(), 1, &options).await;
    let claim = caller.permits(&line, 1, 1, 1);
    assert!(!is_held(join(&caller, &claim).await));
    tokio::time::sleep(Duration::from_millis(300)).await; // the watch is set
    etcd.lease_revoke(lease).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), turn(&caller, &line, claim.id)).await;
    told.expect("the line is free");
    caller.session.close().await.unwrap();
}
