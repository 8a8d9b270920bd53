//! A client with so many claims that the list of its lease is longer than one answer may be.

use std::sync::Arc;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::Shard;
use tokio::task::JoinSet;

use crate::site::{self, is_held, join, name};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_with_very_many_claims_renews_them() {
    let caller = Arc::new(Caller::open(&site::store(), 1, &site::options("many")).await);
    let long = "n".repeat(500);
    let mut joins = JoinSet::new();
    for part in 0..64_u64 {
        let (caller, long) = (caller.clone(), long.clone());
        joins.spawn(async move {
            for number in (part..9_000).step_by(64) {
                let line = name(&format!("{long}{number}"));
                assert!(is_held(join(&caller, &caller.mutex(&line, number)).await));
            }
        });
    }
    joins.join_all().await;
    let standing: Vec<_> =
        (0..9_000).map(|number| (name(&format!("{long}{number}")), vec![caller.claim(number)])).collect();
    let renewal = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert!(renewal.gone.is_empty() && renewal.strays.is_empty());
    // And finds what is not there, and what nobody asked for.
    let (last, rest) = standing.split_last().unwrap();
    let mut asked = rest.to_vec();
    asked.push((last.0.clone(), vec![caller.claim(9_000)]));
    let renewal = caller.session.renew(Shard(0), &asked).await.unwrap();
    assert_eq!(renewal.gone, [caller.claim(9_000)]);
    assert_eq!(renewal.strays, [(last.0.clone(), caller.claim(8_999))]);
    caller.session.close().await.unwrap();
}
