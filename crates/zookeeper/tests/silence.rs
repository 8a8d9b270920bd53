//! A connection that has died without a word is found out long before its ttl is over; one that is only slow is kept.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use site::namespace;
use site::way::Way;
use tidelock_zookeeper::{Locks, Options, State, Store};

/// Longer than the silence that is borne with, and shorter than `command_deadline`.
const SOON: Duration = Duration::from_millis(1_500);

async fn connect(way: &Way) -> Arc<dyn Locks> {
    Store::open(&way.url()).unwrap().connect(Options::new().namespace(&namespace("silence"))).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_connection_that_has_died_without_a_word_costs_neither_an_error_nor_a_hold() {
    let way = Way::open().await;
    let locks = connect(&way).await;
    let kept = locks.mutex("kept").unwrap().lock().await.unwrap();
    for round in 0..3 {
        way.silence();
        let began = Instant::now();
        let guard = locks.mutex("other").unwrap().lock().await.unwrap();
        // A session that soon falls silent again may just have much to say.
        let within = SOON + Duration::from_millis(500) * ((1 << round) - 1);
        assert!(began.elapsed() < within, "round {round}: {:?}", began.elapsed());
        assert_ne!(kept.state(), State::Lost);
        guard.release().await.unwrap();
    }
    kept.release().await.unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_is_slow_keeps_its_connection() {
    let way = Way::open().await;
    let locks = connect(&way).await;
    let mutex = locks.mutex("m").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    way.hold_up(true);
    let locking = tokio::spawn(async move { mutex.lock().await.unwrap() });
    tokio::time::sleep(SOON).await; // whoever doubts it has done so by then
    way.hold_up(false);
    locking.await.unwrap().release().await.unwrap();
    assert_eq!(way.returns(), 0);
}

/// The answer has come, and lies there.
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
