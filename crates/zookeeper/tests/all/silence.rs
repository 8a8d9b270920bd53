//! A dead connection is found out long before its ttl is over. A connection that is only slow is kept.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_zookeeper::{Locks, Options, State, Store};
use tokio::task::JoinSet;

use crate::site::namespace;
use crate::site::way::Way;

/// Longer than the tolerated silence, and shorter than `command_deadline`.
const SOON: Duration = Duration::from_millis(1_500);

async fn connect(way: &Way) -> Arc<dyn Locks> {
    connect_with(way, Options::new()).await
}

async fn connect_with(way: &Way, options: Options) -> Arc<dyn Locks> {
    Store::open(&way.url()).unwrap().connect(options.namespace(&namespace("silence"))).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_connection_that_has_died_without_a_word_costs_neither_an_error_nor_a_hold() {
    // On a busy machine any round may take long. A client with more patience would always take too long.
    let mut late = None;
    for _ in 0..3 {
        late = late_round_of_silence().await;
        if late.is_none() {
            return;
        }
    }
    panic!("in each of three tries a round took too long, in the last one {late:?}");
}

/// Three rounds in which the connection dies. Returns the one, and its time, that took longer than it may.
async fn late_round_of_silence() -> Option<(u32, Duration)> {
    let way = Way::open().await;
    // A busy machine may need longer than the usual two seconds for a new connection.
    let locks = connect_with(&way, Options::new().command_deadline(Duration::from_secs(6))).await;
    let kept = locks.mutex("kept").unwrap().lock().await.unwrap();
    let mut late = None;
    for round in 0..3 {
        way.silence();
        let began = Instant::now();
        let guard = locks.mutex("other").unwrap().lock().await.unwrap();
        // A connection that soon falls silent again may only be slow, so it gets more time.
        let (within, took) = (SOON + Duration::from_millis(500) * ((1 << round) - 1), began.elapsed());
        late = late.or((took >= within).then_some((round, took)));
        assert_ne!(kept.state(), State::Lost);
        guard.release().await.unwrap().confirmed().unwrap();
    }
    kept.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
    late
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_is_slow_keeps_its_connection() {
    let way = Way::open().await;
    let locks = connect(&way).await;
    let mutex = locks.mutex("m").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    way.hold_up(true);
    let locking = tokio::spawn(async move { mutex.lock().await.unwrap() });
    tokio::time::sleep(SOON).await; // a doubt would have ended the connection by then
    way.hold_up(false);
    locking.await.unwrap().release().await.unwrap().confirmed().unwrap();
    assert_eq!(way.returns(), 0);
}

/// Two ways to the store; the client is connected by the first.
async fn by_the_first(first: &Way, second: &Way) -> Arc<dyn Locks> {
    second.close();
    let url = format!("{},{}", first.url(), second.url().trim_start_matches("zookeeper://"));
    let options = Options::new().namespace(&namespace("silence"));
    let locks = Store::open(&url).unwrap().connect(options).await.unwrap();
    locks.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    second.reopen();
    locks
}

/// A reply from another server proves nothing about this one. Servers are asked in random order, so this is tried a few
/// times.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_stands_still_for_a_moment_keeps_its_clients_though_another_serves() {
    let mut all: JoinSet<()> = (0..5).map(|_| stands_still_for_a_moment()).collect();
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

async fn stands_still_for_a_moment() {
    let (first, second) = (Way::open().await, Way::open().await);
    let locks = by_the_first(&first, &second).await;
    let kept = locks.mutex("kept").unwrap().lock().await.unwrap();
    let released = locks.mutex("released").unwrap().lock().await.unwrap();
    let lightened = locks.rwlock("lightened").unwrap().write().await.unwrap();
    second.shorten_and_hush(Duration::from_secs(4)); // a client that connects there loses its session
    first.hold_up(true);
    let (released, lightened, ()) = tokio::join!(released.release(), lightened.downgrade(), async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        first.hold_up(false);
    });
    released.unwrap().confirmed().unwrap();
    lightened.unwrap().release().await.unwrap().confirmed().unwrap();
    assert_eq!((first.returns(), second.returns()), (0, 0));
    assert_ne!(kept.state(), State::Lost);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn silences_of_long_ago_make_nobody_more_patient() {
    const TTL: Duration = Duration::from_secs(9);
    let way = Way::open().await;
    let locks = connect_with(&way, Options::new().ttl(TTL).command_deadline(TTL / 2)).await;
    let mutex = locks.mutex("m").unwrap();
    // Half a second is tolerated, then a second, and then it would be two.
    for _ in 0..3 {
        way.silence();
        mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    }
    // Patience of two seconds would never be quicker than that.
    one_of_three_takes_less_than(Duration::from_millis(1_950), async || {
        tokio::time::sleep(TTL + Duration::from_millis(100)).await;
        way.silence();
        let began = Instant::now();
        mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
        began.elapsed()
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_closes_by_a_connection_that_has_died_closes() {
    one_of_three_takes_less_than(SOON, async || {
        let way = Way::open().await;
        let locks = connect(&way).await;
        locks.mutex("m").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        way.silence();
        let began = Instant::now();
        locks.close().await.unwrap();
        began.elapsed()
    })
    .await;
}

/// On a busy machine anything may take long, but not each time.
async fn one_of_three_takes_less_than(bound: Duration, timed: impl AsyncFn() -> Duration) {
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        quickest = quickest.min(timed().await);
        if quickest < bound {
            return;
        }
    }
    panic!("the quickest of three took {quickest:?}");
}

/// The reply has arrived, and waits to be polled.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_user_who_does_not_listen_is_taken_for_no_silence() {
    let way = Way::open().await;
    let locks = connect(&way).await;
    let mut looking = locks.inspect("m");
    assert!(looking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(SOON).await;
    assert_eq!(way.returns(), 0);
    looking.await.unwrap();
}
