//! A waiter learns of its turn, whoever ahead of it has left before.

use std::time::Duration;

use tidelock_etcd::Options;

use crate::site::{self, until};

/// Waiters of client `c` stand behind others': X, c1, W, Y, c2, Z, c3. Z gives up while c2 waits behind Y. When c2 has its turn, its
/// client watches Z, which left long ago, and nothing is written meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_behind_one_that_gave_up_unnoticed_is_told() {
    const SOON: Duration = Duration::from_secs(4);
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("gave up"));
    let connect = || async { site::store().connect(options.clone()).await.unwrap() };
    let (x, w, y, z, c) =
        (connect().await, connect().await, connect().await, connect().await, connect().await);
    let held = x.mutex("m").unwrap().lock().await.unwrap();
    let mut waiting = Vec::new();
    for (nth, locks) in (1..).zip([&c, &w, &y, &c, &z, &c]) {
        let mutex = locks.mutex("m").unwrap();
        waiting.push(tokio::spawn(async move { mutex.lock().await }));
        until("it waits", async || (x.inspect("m").await.ok()?.waiters().count() == nth).then_some(())).await;
    }
    let [c1, w1, y1, c2, z1, c3]: [_; 6] = waiting.try_into().unwrap();
    // Until what is read and watched is. Too short a time would only let the fault pass.
    let pause = || tokio::time::sleep(Duration::from_millis(300));
    pause().await;
    held.release().await.unwrap();
    let c1 = c1.await.unwrap().unwrap();
    pause().await;
    z1.abort();
    until("Z has left", async || (x.inspect("m").await.ok()?.waiters().count() == 4).then_some(())).await;
    pause().await;
    c1.release().await.unwrap();
    w1.await.unwrap().unwrap().release().await.unwrap();
    pause().await;
    let y1 = y1.await.unwrap().unwrap();
    pause().await;
    y1.release().await.unwrap();
    let c2 = tokio::time::timeout(SOON, c2).await.expect("c2 has its turn").unwrap().unwrap();
    pause().await;
    c2.release().await.unwrap();
    let line = x.inspect("m").await.unwrap();
    let c3 = tokio::time::timeout(SOON, c3).await;
    assert!(c3.is_ok(), "c3 has its turn, and nobody tells it: {line:?}");
}
