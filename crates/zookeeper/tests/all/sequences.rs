//! Sequences run over, so they are compared by difference. No claim is let in by a comparison that is no longer right.

use std::time::Duration;

use tidelock_zookeeper::{ErrorKind, Locks, Options};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::site;

/// How long to wait where no answer is wanted.
const A_MOMENT: Duration = Duration::from_secs(2);
/// Enough for an answer on a busy machine.
const A_WHILE: Duration = Duration::from_secs(30);

/// A client, a plain connection, and the path of a line that exists and is empty.
async fn line(what: &str, name: &str) -> (std::sync::Arc<dyn Locks>, Client, String) {
    let options = Options::new().namespace(&site::namespace(what));
    let path = format!("/{}/{name}", options.namespace);
    let locks = site::store().connect(options.clone()).await.unwrap();
    let client = site::plain().await;
    client.create(&path, b"", &CreateMode::Container.with_acls(Acls::anyone_all())).await.unwrap();
    (locks, client, path)
}

/// A claim that stands in line since so many others have come: their sequences begin at 0 here.
async fn stands_since(client: &Client, line: &str, claim: &str, others: i64) {
    let sequence = i32::try_from((0 - others + (1 << 31)).rem_euclid(1 << 32) - (1 << 31)).unwrap();
    let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    client.create(&format!("{line}/{claim}-{sequence:010}"), b"", &mode).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nobody_passes_a_holder_however_many_have_come_since() {
    for others in [1 << 29, 1 << 30, (1 << 31) + 1_000, (3 << 30) - 1_000] {
        let (locks, client, path) = line("old holder", "m").await;
        stands_since(&client, &path, "m-00000000000000aa-1-1-1", others).await;
        let mutex = locks.mutex("m").unwrap();
        assert!(!matches!(mutex.try_lock().await, Ok(Some(_))), "after {others}");
        let is_known = others < 1 << 30;
        match mutex.lock_within(if is_known { A_MOMENT } else { A_WHILE }).await {
            Ok(taken) => assert!(is_known && taken.is_none(), "after {others}: {taken:?}"),
            Err(error) => assert!(!is_known && error.kind() == ErrorKind::Unavailable, "{error}"),
        }
        site::until("the other one has left", async || {
            (locks.inspect("m").await.unwrap().claims.len() == 1).then_some(())
        })
        .await;
        locks.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_old_resize_lets_nobody_in_however_many_have_come_since() {
    for (held, wanted) in [(-(1 << 29), 3), (-(1 << 30), 1), (i32::MAX - 1_000, 1), ((1 << 30) + 1_000, 1)] {
        let (locks, client, path) = line("old resize", "s").await;
        let permits = locks.semaphore("s", 3).unwrap();
        let mut taken = vec![permits.acquire(1).await.unwrap()]; // the server deletes an empty line
        let resized = format!("capacity=3 before={held} held={held}");
        client.set_data(&path, resized.as_bytes(), None).await.unwrap();
        for _ in 0..3 {
            let within = if taken.len() < 3 { A_WHILE } else { A_MOMENT };
            match permits.acquire_within(1, within).await {
                Ok(more) => taken.extend(more),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
        assert_eq!(taken.len(), wanted, "of 3 permits, resized at {held}");
        locks.close().await.unwrap();
    }
}
