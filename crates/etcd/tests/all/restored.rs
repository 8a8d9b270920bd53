//! A server that is restored from an older copy while a lease lives.

use std::process::Command;
use std::time::Duration;

use tidelock_etcd::{Options, State, Store};

use crate::site::{self, Program};

/// The copy has the lease, but not all that is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_is_restored_from_an_older_copy_ends_the_session() {
    let mut etcd = Program::etcd("restored", &[]).await;
    let ttl = Duration::from_secs(60);
    let store = Store::open(&format!("etcd://{}", etcd.address)).unwrap();
    let locks = store.connect(Options::new().ttl(ttl)).await.unwrap();
    let held = locks.mutex("held").unwrap().lock().await.unwrap();
    let (now, before) = (site::folder("restored"), site::folder("restored-before"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let _ = std::fs::remove_dir_all(to);
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    };
    etcd.restart(|| copy(&now, &before)).await;
    for _ in 0..20 {
        locks.mutex("other").unwrap().lock().await.unwrap().release().await.unwrap();
    }
    assert_eq!(held.state(), State::Held);
    etcd.restart(|| copy(&before, &now)).await;
    std::fs::remove_dir_all(&before).unwrap();
    let lost = tokio::time::timeout(ttl / 5, held.lost());
    lost.await.expect("it is told long before a renewal");
    // A new session goes on there.
    locks.mutex("other").unwrap().lock().await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
}
