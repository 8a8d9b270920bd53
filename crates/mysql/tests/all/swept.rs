//! What dead clients leave does not stay.

use std::sync::Arc;
use std::time::Duration;

use tidelock_conformance::callers::{Caller, is_held, join, name, namespace};
use tidelock_conformance::{Proxy, Way};
use tidelock_mysql::backend::{Claim, Leave, Patience, Shard};
use tidelock_mysql::{Kind, Locks, MIGRATION, Options, Store, Weight};
use tokio::time::sleep;

use crate::server::{client, run, url, url_of};

/// An operator evicts a claim whose client has died meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_eviction_of_a_dead_clients_claim_leaves_no_row_for_ever() {
    let (space, store) = (namespace("att evict"), Store::open(&url()).unwrap());
    let options = |ttl| Options::new().namespace(&space).ttl(ttl);
    let dies = Caller::open(&store, 1, &options(Duration::from_secs(1))).await;
    let lives = Caller::open(&store, 2, &options(Duration::from_secs(60))).await;
    let at = name("stock");
    assert!(is_held(join(&dies, &dies.mutex(&at, 1)).await));
    sleep(Duration::from_millis(1_200)).await;
    // What core's `evict` asks for.
    let operator = client(&space).await;
    operator.evict("stock", dies.claim(1)).await.unwrap();
    // A minute later, but not more than that after the eviction.
    run(&format!("UPDATE tidelock_session SET expires = 1 WHERE id = {}", dies.id.get())).await;
    let rows = format!("SELECT number, state FROM tidelock_claim WHERE session = {}", dies.id.get());
    let there = format!("SELECT id FROM tidelock_session WHERE id = {}", dies.id.get());
    for number in 0..2_000 {
        lives.session.join(&lives.mutex(&name("other"), number), Patience::Now).await.unwrap();
        lives.session.leave(&name("other"), lives.claim(number), Leave::Done).await.unwrap();
        lives.session.renew(Shard(0), &[]).await.unwrap();
        sleep(Duration::from_millis(10)).await;
        if run(&there).await.is_empty() {
            break;
        }
    }
    assert!(run(&there).await.is_empty(), "the dead client is swept");
    // All later sweeps: an hour and more.
    run(&format!("UPDATE tidelock_claim SET since = 1 WHERE session = {}", dies.id.get())).await;
    for number in 3_000..3_100 {
        lives.session.join(&lives.mutex(&name("other"), number), Patience::Now).await.unwrap();
        lives.session.leave(&name("other"), lives.claim(number), Leave::Done).await.unwrap();
        lives.session.renew(Shard(0), &[]).await.unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    let left = run(&rows).await;
    assert!(left.is_empty(), "rows of nobody: {left:?}");
}

/// Dead waiters stand in nobody's way, and void claims do not stand at all: nobody asks about them. Whoever uses their
/// line takes them out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_comes_and_closes_at_once_leaves_nothing_of_the_dead() {
    let alone = Alone::new("tidelock_dead").await;
    // Rung for a client just after it was closed.
    run(&format!("INSERT INTO {}.tidelock_bell (session, rung) VALUES (77, 1)", alone.database)).await;
    // More than a client sweeps at once.
    for _ in 0..25 {
        alone.client_dies("dead").await;
    }
    let comes = alone.client("dead").await;
    let guard = comes.semaphore("pool", 4).unwrap().try_acquire(1).await.unwrap().unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    comes.close().await.unwrap();
    alone.ends("what came and closed at once").await;
}

/// It takes longer than the close may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_close_ends_its_session_before_it_cleans_up_for_others() {
    let alone = Alone::new("tidelock_slowly").await;
    for _ in 0..25 {
        alone.client_dies("dead").await;
    }
    let near = url_of("root", alone.database);
    let place = near.split('@').nth(1).unwrap().split('/').next().unwrap();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let far = Store::open(&near.replace(place, &proxy.address().to_string())).unwrap();
    let comes = far.connect(Options::new().namespace("dead").label("comes")).await.unwrap();
    let guard = comes.semaphore("pool", 4).unwrap().try_acquire(1).await.unwrap().unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    proxy.delay(Way::There, Duration::from_millis(60));
    comes.close_within(Duration::from_millis(700)).await.unwrap();
    let ended = format!("SELECT id FROM {}.tidelock_session WHERE label = 'comes'", alone.database);
    assert!(run(&ended).await.is_empty(), "its session is over");
    proxy.cut();
    run(&format!("DROP DATABASE {}", alone.database)).await;
}

/// The first sweep takes the dead out of their lines, and the next one what they have nowhere in line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_sweeps_once_and_closes_leaves_nothing_of_the_dead() {
    let alone = Alone::new("tidelock_swept").await;
    alone.client_dies("elsewhere").await;
    run("USE tidelock_swept; INSERT INTO tidelock_line (name, kind, capacity, token, spilled) VALUES ('late', 1, 1, 1, 1); \
         INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since) \
         VALUES ('late', 2, 4, 5, 4, 0, 0, 1)") // its client's row was gone before it came
    .await;
    let sweeps = Caller::open(&alone.store, 1, &Options::new().namespace("here")).await;
    let at = name("stock");
    assert!(is_held(join(&sweeps, &sweeps.mutex(&at, 1)).await));
    sweeps.session.leave(&at, sweeps.claim(1), Leave::Done).await.unwrap();
    sweeps.session.renew(Shard(0), &[]).await.unwrap(); // begins a sweep
    sweeps.session.close().await.unwrap();
    sweeps.session.clean_up().await;
    alone.ends("what swept once").await;
}

/// A database of a test's own: clients of other tests do not sweep it.
struct Alone {
    database: &'static str,
    store: Store,
}

impl Alone {
    async fn new(database: &'static str) -> Self {
        run(&format!(
            "DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database}; {MIGRATION}"
        ))
        .await;
        Self { database, store: Store::open(&url_of("root", database)).unwrap() }
    }

    async fn client(&self, namespace: &str) -> Arc<dyn Locks> {
        self.store.connect(Options::new().namespace(namespace)).await.unwrap()
    }

    /// It leaves waiters, and void claims.
    async fn client_dies(&self, namespace: &str) {
        let dies = Caller::open(&self.store, 1, &Options::new().namespace(namespace)).await;
        let (at, four) = (name("pool"), Weight::new(4).unwrap());
        for number in 0..4 {
            let claim = Claim::new(dies.claim(number), at.clone(), Kind::Semaphore, four, four);
            dies.session.join(&claim, Patience::Wait).await.unwrap();
        }
        let id = dies.id.get();
        let dead = format!(
            "INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since) \
             VALUES (CONCAT('{namespace}', x'00', 'pool'), 2, 4, {id}, 4, 0, 0, 1); \
             UPDATE tidelock_session SET expires = 1 WHERE id = {id}"
        );
        run(&format!("USE {}; {dead}", self.database)).await;
    }

    async fn ends(self, who: &str) {
        let rows = "SELECT session, number, state FROM tidelock_claim; SELECT id FROM tidelock_session; \
                    SELECT session FROM tidelock_bell";
        let left = run(&format!("USE {}; {rows}", self.database)).await;
        assert!(left.is_empty(), "{who} has left rows of nobody: {left:?}");
        run(&format!("DROP DATABASE {}", self.database)).await;
    }
}
