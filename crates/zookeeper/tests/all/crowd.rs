//! A crowd on one name, on a server: whatever happens to it costs no other client a lock.

use std::time::{Duration, Instant};

use tidelock_zookeeper::{Options, State};
use tokio::task::JoinSet;

use crate::site;
use crate::site::{namespace, plain, until};

const CROWD: usize = 10_000;
/// One second is promised, on a machine without other load.
const SOON: Duration = Duration::from_secs(5);

/// Half of the joins are dropped before they are sent, and the outcome of the others is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn ten_thousand_joins_dropped_at_once_are_gone_soon_and_cost_nobody_a_lock() {
    let store = site::store();
    let options = Options::new().ttl(Duration::from_secs(6)).namespace(&namespace("crowd"));
    let line = format!("/{}/hot", options.namespace);
    let [crowd, other] =
        [store.connect(options.clone()).await.unwrap(), store.connect(options).await.unwrap()];
    let (kept, hot) = (other.mutex("kept").unwrap().lock().await.unwrap(), other.mutex("hot").unwrap());
    let hot = hot.lock().await.unwrap();
    let client = plain().await;
    for when in [Duration::ZERO, Duration::from_millis(60), Duration::from_secs(4)] {
        let mut tasks = JoinSet::new();
        for _ in 0..CROWD {
            let mutex = crowd.mutex("hot").unwrap();
            tasks.spawn(async move { mutex.lock().await.map(drop) });
        }
        tokio::time::sleep(when).await;
        let stood = client.list_children(&line).await.unwrap().len();
        let start = Instant::now();
        tasks.abort_all();
        until("all of them are gone", async || {
            (client.list_children(&line).await.unwrap().len() == 1).then_some(())
        })
        .await;
        let took = start.elapsed();
        println!("after {when:?} {stood} stood in line, and were gone after {took:?}");
        assert!(took < SOON, "{took:?}");
        assert_eq!((kept.state(), hot.state()), (State::Held, State::Held));
        while tasks.join_next().await.is_some() {}
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!((kept.state(), hot.state()), (State::Held, State::Held));
    kept.release().await.unwrap().confirmed().unwrap();
    hot.release().await.unwrap().confirmed().unwrap();
}
