//! The watch stream: hand-offs are told at once, and a compaction costs no turn.

use std::time::{Duration, Instant};

use tidelock_etcd::backend::Leave;
use tidelock_etcd::etcd_client::CompactionOptions;

use crate::site::{self, is_held, join, name, options, turn};
use tidelock_conformance::callers::Caller;

/// A watch from a known revision would be served by a loop that runs every 100 ms.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_hand_off_is_told_at_once_however_long_the_lock_was_held() {
    let options = options("at once");
    let [a, b] = site::two(&options).await;
    let line = name("line");
    let mut etcd = site::plain().await;
    for (round, held) in [5, 5, 5, 5, 5, 5, 5, 5, 150, 150].into_iter().enumerate() {
        let round = u64::try_from(round).unwrap();
        let (mine, next) = (a.mutex(&line, 2 * round + 1), b.mutex(&line, 2 * round + 1));
        assert!(is_held(join(&a, &mine).await));
        assert!(!is_held(join(&b, &next).await));
        // Somebody writes elsewhere all the time.
        etcd.put(format!("{} elsewhere", options.namespace), "x", None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(held)).await;
        let began = Instant::now();
        a.session.leave(&line, mine.id, Leave::Done).await.unwrap();
        turn(&b, &line, next.id).await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(80), "the hand-off took {took:?} after {held} ms");
        b.session.leave(&line, next.id, Leave::Done).await.unwrap();
    }
    etcd.delete(format!("{} elsewhere", options.namespace), None).await.unwrap();
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_compaction_costs_no_turn() {
    let options = options("compacted");
    let [a, b] = site::two(&options).await;
    for line in ["mutex", "permits"].map(name) {
        let claim = |caller: &Caller, number| match &*line {
            "mutex" => caller.mutex(&line, number),
            _ => caller.permits(&line, number + 10, 1, 1),
        };
        let (mine, next) = (claim(&a, 1), claim(&b, 1));
        assert!(is_held(join(&a, &mine).await));
        assert!(!is_held(join(&b, &next).await));
        let mut etcd = site::plain().await;
        let now = etcd.get("none", None).await.unwrap().header().unwrap().revision();
        let compacted = etcd.compact(now, Some(CompactionOptions::new().with_physical())).await;
        assert!(compacted.is_ok() || compacted.unwrap_err().to_string().contains("compacted"));
        a.session.leave(&line, mine.id, Leave::Done).await.unwrap();
        turn(&b, &line, next.id).await;
        b.session.leave(&line, next.id, Leave::Done).await.unwrap();
    }
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}
