//! What waiting costs, as the server counts it. A program of its own: the server counts for everybody.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use server::{client_with, run, statements, until};
use tidelock_mysql::{Locks, Options};
use tokio::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::const_new(());

/// The server counts for everybody, so one test runs at a time.
async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// The statements that a count itself takes: the settings of its connection, and the question.
const COUNTING: u64 = 2;

/// The statements that a client sends in a while, without those of the count itself.
async fn in_a_while(seconds: u64) -> u64 {
    let before = statements().await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    statements().await - before - COUNTING
}

/// A client that neither renews nor cleans up during the test.
fn options(namespace: &str) -> Options {
    Options::new().namespace(namespace).ttl(Duration::from_secs(900))
}

/// How many connections the clients of a user have.
async fn connections_of(user: &str) -> u32 {
    run(&format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = '{user}'")).await[0][0]
        .parse()
        .unwrap()
}

/// Two clients of a user who is allowed ten connections.
async fn two_clients_of_ten_connections(namespace: &str) -> [Arc<dyn Locks>; 2] {
    run(
        "CREATE OR REPLACE USER 'ten'@'%' WITH MAX_USER_CONNECTIONS 10; GRANT ALL ON tidelock.* TO 'ten'@'%'",
    )
    .await;
    let store = tidelock_mysql::Store::open(&server::url_of("ten", "tidelock")).unwrap();
    [store.connect(options(namespace)).await.unwrap(), store.connect(options(namespace)).await.unwrap()]
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn five_hundred_waiters_on_five_hundred_names_live_on_ten_connections() {
    let _alone = alone().await;
    let [a, b] = two_clients_of_ten_connections("waiting 1").await;
    let idle = in_a_while(2).await;
    assert!(idle <= 4, "two idle clients sent {idle} statements in 2 s");
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let name = format!("name {number}");
        held.push(a.mutex(&name).unwrap().lock().await.unwrap());
        let mutex = b.mutex(&name).unwrap();
        waiting.push(tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() }));
    }
    until("all wait", async || b.inspect("name 499").await.unwrap().waiters().count() == 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the hand-offs of before are no news any more
    let asked = in_a_while(3).await;
    assert!(asked <= 3 * 20 + 10, "500 waiters sent {asked} statements in 3 s");
    assert!(connections_of("ten").await <= 10);
    println!("{asked} statements in 3 s, {} connections", connections_of("ten").await);
    drop(held);
    for task in waiting {
        task.await.unwrap();
    }
    a.close().await.unwrap();
    b.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn ten_thousand_waiters_on_one_name_live_on_ten_connections() {
    let _alone = alone().await;
    let [a, b] = two_clients_of_ten_connections("waiting 2").await;
    let held = a.mutex("one").unwrap().lock().await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    let mutex = b.mutex("one").unwrap();
    for _ in 0..10_000 {
        let mutex = mutex.clone();
        waiting.spawn(async move { mutex.lock().await.unwrap().token() });
    }
    until("all wait", async || a.inspect("one").await.unwrap().waiters().count() == 10_000).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the crowd itself is no news any more
    let asked = in_a_while(3).await;
    assert!(asked <= 3 * 20 + 10, "10 000 waiters sent {asked} statements in 3 s");
    assert!(connections_of("ten").await <= 10);
    let began = tokio::time::Instant::now();
    let (mut newest, last) = (held.token(), held);
    last.release().await.unwrap();
    for _ in 0..200 {
        let token = waiting.join_next().await.unwrap().unwrap();
        assert!(token > newest, "{token} after {newest}");
        newest = token;
    }
    println!("{asked} statements in 3 s; 200 hand-offs with 10 000 in line took {:?}", began.elapsed());
    waiting.shutdown().await;
    until("all have left", async || a.inspect("one").await.unwrap().claims.is_empty()).await;
    a.close().await.unwrap();
    b.close().await.unwrap();
}

/// How many statements the server counted while this ran.
async fn counted(work: impl AsyncFnOnce()) -> u64 {
    let before = statements().await;
    work().await;
    statements().await - before - COUNTING
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_each_operation_sends_is_counted_at_the_server() {
    const TIMES: u64 = 50;
    let _alone = alone().await;
    let (a, b) = (client_with(options("counted")).await, client_with(options("counted")).await);
    let mutex = a.mutex("free").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let mut held = None;
    let (mut takes, mut gives) = (0, 0);
    for _ in 0..TIMES {
        takes += counted(async || held = Some(mutex.lock().await.unwrap())).await;
        gives += counted(async || {
            held.take().unwrap().release().await.unwrap();
        })
        .await;
    }
    println!("take {takes}, give back {gives}, of {TIMES} each");
    // Seven statements take, in one round trip: two begin and commit, two would stand behind others, two read what came of
    // it. One gives back.
    assert!(takes <= 7 * TIMES + 5 && gives <= TIMES + 5, "take {takes}, give back {gives}, of {TIMES} each");

    // A hand-off to and fro: the release, the bell's statement, what it reads, and the next join.
    let (mine, other) = (a.mutex("handed").unwrap(), b.mutex("handed").unwrap());
    let handed = counted(async || {
        let mut held = mine.lock().await.unwrap();
        for number in 0..TIMES {
            let next = if number % 2 == 0 { other.clone() } else { mine.clone() };
            let waiting = tokio::spawn(async move { next.lock().await.unwrap() });
            until("it waits", async || a.inspect("handed").await.unwrap().waiters().count() == 1).await;
            held.release().await.unwrap();
            held = waiting.await.unwrap();
        }
        held.release().await.unwrap();
    })
    .await;
    println!("{handed} statements for {TIMES} hand-offs, with the looks of this test");
    assert!(handed <= 60 * TIMES, "{handed} statements for {TIMES} hand-offs");
    // And with 200 more in line a hand-off costs no more.
    a.close().await.unwrap();
    b.close().await.unwrap();
}
