//! A grant that the server never made: the old master made it, its client missed that, and the new master has the claim
//! waiting. Here the grant is published by hand.

use std::sync::Arc;
use std::time::Duration;

use tidelock_redis::{Guard, Locks, Options, Result, State, Store};
use tokio::task::JoinHandle;

use crate::site;
use crate::site::alone::Alone;

const TTL: Duration = Duration::from_secs(3);
const WITHIN: Duration = Duration::from_millis(200);

/// A client that holds a lock, and one that waits for it.
struct Missed {
    theirs: Arc<dyn Locks>,
    held: Guard,
    waits: JoinHandle<Result<Guard>>,
    ours: Arc<dyn Locks>,
    _alone: Alone,
}

impl Missed {
    async fn new(options: Options) -> Self {
        let alone = Alone::new().await;
        let store = Store::open(&site::url()).unwrap();
        let theirs = store.connect(Options::new().ttl(TTL).namespace(&options.namespace)).await.unwrap();
        let held = theirs.mutex("m").unwrap().lock().await.unwrap();
        let ours = store.connect(options.ttl(TTL)).await.unwrap();
        let mutex = ours.mutex("m").unwrap();
        let waits = tokio::spawn(async move { mutex.lock().await });
        let missed = Self { theirs, held, waits, ours, _alone: alone };
        site::until("it waits", async || (missed.waiting().await.len() == 1).then_some(())).await;
        missed
    }

    /// The numbers of the claims that wait.
    async fn waiting(&self) -> Vec<u64> {
        let line = self.theirs.inspect("m").await.unwrap();
        line.waiters().map(|claim| claim.id.number).collect()
    }

    /// Tells the waiter that it holds.
    async fn publish_a_grant(&self) {
        let line = self.theirs.inspect("m").await.unwrap();
        let claim = line.waiters().next().unwrap().id;
        let mut server = site::plain().await;
        let channels: Vec<String> = site::ask(&mut server, "PUBSUB CHANNELS").await;
        let channel = channels.into_iter().find(|one| one.contains(&claim.session.to_string())).unwrap();
        let order = self.held.token().get() / 32 + 1;
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&channel).arg(format!("held {} {order:015} 1", claim.number));
        let heard: i64 = publish.query_async(&mut server).await.unwrap();
        assert_eq!(heard, 1);
    }

    async fn close(self) {
        drop(self.held);
        self.ours.close().await.unwrap();
        self.theirs.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_hold_by_a_grant_that_the_server_never_made_ends_with_the_next_renewal() {
    let mut missed = Missed::new(Options::new().namespace("grants")).await;
    missed.publish_a_grant().await;
    let ours = (&mut missed.waits).await.unwrap().unwrap();
    let lost = tokio::time::timeout(TTL / 3 + Duration::from_secs(1), ours.lost()).await;
    assert!(lost.is_ok(), "{:?}", ours.state());
    assert_eq!(missed.held.state(), State::Held);
    let nobody = async || missed.waiting().await.is_empty().then_some(());
    site::until("its claim has left", nobody).await;
    missed.close().await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_whose_grant_the_server_never_made_keeps_its_place_where_replicas_are_asked() {
    let missed = Missed::new(Options::new().namespace("replicated-grants").replicas(1, WITHIN)).await;
    let before = missed.waiting().await;
    missed.publish_a_grant().await;
    tokio::time::sleep(WITHIN * 3).await;
    assert_eq!(missed.waiting().await, before, "it kept its place");
    missed.waits.abort();
    let began = std::time::Instant::now();
    site::until("it has left", async || missed.waiting().await.is_empty().then_some(())).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    missed.close().await;
}
