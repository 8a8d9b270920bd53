//! Renewals that are answered in part, or by a member that is wrong.

use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Place, Shard};
use tidelock_etcd::etcd_client::DeleteOptions;
use tidelock_etcd::{Options, State, Store};

use crate::site::{self, FULL, Middleman, SLOW, join, name, until};

const TTL: Duration = Duration::from_secs(3);
/// What a request for a lease's keys has in it.
const WITH_KEYS: &[u8] = &[0x10, 1];

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

/// The list tells only what may be missing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_list_that_fails_costs_no_lock() {
    for is_answered in [true, false] {
        let mut middleman = Middleman::before(site::host()).await;
        let options = Options::new().ttl(TTL).namespace(&site::namespace("no list"));
        let locks = Store::open(&middleman.url()).unwrap().connect(options).await.unwrap();
        let guard = locks.mutex("m").unwrap().lock().await.unwrap();
        match is_answered {
            true => middleman.refuses(&["/LeaseTimeToLive"], SLOW),
            false => middleman.stops("/LeaseTimeToLive", WITH_KEYS),
        }
        let lost = tokio::time::timeout(TTL * 3, guard.lost()).await;
        assert!(lost.is_err(), "answered: {is_answered}");
        middleman.heals();
        assert!(guard.release().await.unwrap().is_confirmed());
        locks.close().await.unwrap();
    }
}

/// The first keep-alive is proved by the second renewal, whose own keep-alive fails.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_an_earlier_keep_alive_was_worth_is_told_whatever_fails_now() {
    let middleman = Middleman::before(site::host()).await;
    let options = site::options("proved late");
    let caller = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let claim = caller.mutex(&name("m"), 1);
    let place = join(&caller, &claim).await;
    let Place::Held { until: before, .. } = place else { panic!("{place:?}") };
    let standing = [(claim.name.clone(), vec![claim.id])];
    middleman.refuses(&["/Txn", "/Range"], SLOW);
    caller.session.renew(Shard(0), &standing).await.unwrap_err();
    middleman.heals();
    middleman.denies_leases("/LeaseKeepAlive");
    let renewed = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert!(renewed.until > before && renewed.gone.is_empty() && renewed.unsure.is_empty(), "{renewed:?}");
    caller.session.close().await.unwrap();
}

/// Each answer comes in time, and two that are awaited one after the other do not.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_that_was_given_up_makes_those_behind_it_no_later() {
    let middleman = Middleman::before(site::host()).await;
    let deadline = Duration::from_millis(1500);
    let options = site::options("slow proofs").command_deadline(deadline);
    let caller = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let claim = caller.mutex(&name("m"), 1);
    let place = join(&caller, &claim).await;
    let Place::Held { until: mut before, .. } = place else { panic!("{place:?}") };
    let standing = [(claim.name.clone(), vec![claim.id])];
    let renew = async |within| tokio::time::timeout(within, caller.session.renew(Shard(0), &standing)).await;
    middleman.delays(&["/Txn", "/Range"], deadline / 5 * 3);
    renew(deadline / 2).await.expect_err("its keep-alive is not proved yet");
    for _ in 0..3 {
        let renewed = renew(deadline).await.expect("core gives it up").unwrap();
        assert!(renewed.until > before && renewed.gone.is_empty(), "{renewed:?}");
        before = renewed.until;
    }
    middleman.heals();
    caller.session.close().await.unwrap();
}

/// A namespace may be large, and its leader slow. Without an earlier keep-alive there is no news that could be told.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_list_that_does_not_come_makes_no_renewal_too_late() {
    let deadline = Duration::from_millis(1500);
    for proofs_take in [Duration::ZERO, deadline / 2] {
        let mut middleman = Middleman::before(site::host()).await;
        let options = site::options("no list in time").command_deadline(deadline);
        let caller = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
        let claim = caller.mutex(&name("m"), 1);
        let place = join(&caller, &claim).await;
        let Place::Held { until: mut before, .. } = place else { panic!("{place:?}") };
        let standing = [(claim.name.clone(), vec![claim.id])];
        middleman.delays(&["/Txn", "/Range"], proofs_take);
        middleman.stops("/LeaseTimeToLive", WITH_KEYS);
        for nth in 1..=4 {
            let renewed = tokio::time::timeout(deadline, caller.session.renew(Shard(0), &standing)).await;
            let renewed = renewed.unwrap_or_else(|_| panic!("core gives up number {nth}, {proofs_take:?}"));
            let renewed = renewed.unwrap();
            assert!(renewed.until > before && renewed.gone.is_empty(), "{renewed:?}");
            before = renewed.until;
        }
        middleman.heals();
        caller.session.close().await.unwrap();
    }
}

/// Core gives up a renewal that waits for the list, when it has proved the keep-alive before.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_renewal_has_proved_that_was_given_up_is_told_by_the_next_one() {
    let mut middleman = Middleman::before(site::host()).await;
    let options = site::options("given up").command_deadline(Duration::from_secs(8));
    let caller = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let claim = caller.mutex(&name("m"), 1);
    let place = join(&caller, &claim).await;
    let Place::Held { until: before, .. } = place else { panic!("{place:?}") };
    let standing = [(claim.name.clone(), vec![claim.id])];
    // With another refusal the client would compare its connection with others.
    let all = ["/Txn", "/Range", "/LeaseTimeToLive"];
    middleman.refuses(&all, FULL);
    caller.session.renew(Shard(0), &standing).await.unwrap_err();
    middleman.heals();
    middleman.stops("/LeaseTimeToLive", WITH_KEYS);
    let given_up = tokio::time::timeout(Duration::from_secs(2), caller.session.renew(Shard(0), &standing));
    given_up.await.expect_err("the list does not come");
    middleman.heals();
    middleman.refuses(&all, FULL);
    middleman.denies_leases("/LeaseKeepAlive");
    let renewed = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert!(renewed.until > before && renewed.gone.is_empty() && renewed.unsure.is_empty(), "{renewed:?}");
    let again = caller.session.renew(Shard(0), &standing).await;
    assert!(again.is_err(), "it was told already: {again:?}");
    middleman.heals();
    caller.session.close().await.unwrap();
}

/// The list would tell that it is gone. A renewal looks at some claims one by one, too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_whose_key_was_deleted_is_lost_although_the_list_fails() {
    let middleman = Middleman::before(site::host()).await;
    let options = Options::new().ttl(TTL).namespace(&site::namespace("deleted"));
    let locks = Store::open(&middleman.url()).unwrap().connect(options.clone()).await.unwrap();
    let take = async |name: &str| locks.mutex(name).unwrap().lock().await.unwrap();
    let (guard, other) = (take("m").await, take("n").await);
    middleman.refuses(&["/LeaseTimeToLive"], SLOW);
    let line = format!("{}/m/", options.namespace);
    let deleted = site::plain().await.delete(line, Some(DeleteOptions::new().with_prefix())).await.unwrap();
    assert_eq!(deleted.deleted(), 1);
    let lost = tokio::time::timeout(TTL, guard.lost()).await;
    assert!(lost.is_ok(), "{:?}", guard.state());
    assert_eq!(other.state(), State::Held);
    middleman.heals();
    assert!(other.release().await.unwrap().is_confirmed());
    locks.close().await.unwrap();
}
