//! Renewals that are answered by a member that is wrong.

use std::time::Duration;

use tidelock_etcd::{Options, State, Store};

use crate::site::{self, Middleman, until};

const TTL: Duration = Duration::from_secs(3);

/// A leader that was just elected may not know the lease yet.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn one_member_that_does_not_know_the_lease_costs_no_lock() {
    for asked in ["/LeaseKeepAlive", "/LeaseTimeToLive"] {
        let middleman = Middleman::before(site::host()).await;
        let options = Options::new().ttl(TTL).namespace(&site::namespace("denied"));
        let locks = Store::open(&middleman.url()).unwrap().connect(options).await.unwrap();
        let guard = locks.mutex("m").unwrap().lock().await.unwrap();
        middleman.denies_leases(asked);
        until("it was denied", async || (middleman.denied() > 0).then_some(())).await;
        middleman.heals();
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(guard.state(), State::Held, "{asked}");
        assert!(guard.release().await.unwrap().is_confirmed());
        locks.close().await.unwrap();
    }
}
