//! Settings of the server that concern everybody: read-only, full, and other defaults. A program of its own, one test at
//! a time.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use server::{client, pool, run, until, url_of};
use tidelock_mysql::{Error, ErrorKind, Locks, Options, Store, lock_in};
use tokio::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::const_new(());

async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

async fn refused(url: &str) -> Error {
    let options = Options::new().connect_deadline(Duration::from_secs(5));
    Store::open(url).unwrap().connect(options).await.unwrap_err()
}

/// An ordinary user: a server that is read-only, or full, still serves its administrators.
async fn ordinary_user() -> String {
    run("CREATE OR REPLACE USER 'ordinary'@'%'; \
         GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON tidelock.* TO 'ordinary'@'%'")
    .await;
    url_of("ordinary", "tidelock")
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_read_only_server_is_told_and_nothing_is_left_behind() {
    let _alone = alone().await;
    let url = ordinary_user().await;
    let options = Options::new()
        .namespace("read only")
        .ttl(Duration::from_secs(6))
        .command_deadline(Duration::from_secs(1));
    let locks = Store::open(&url).unwrap().connect(options).await.unwrap();
    let held = locks.mutex("held").unwrap().lock().await.unwrap();
    run("SET GLOBAL read_only = 1").await;
    let connecting = refused(&url).await;
    assert_eq!(connecting.kind(), ErrorKind::Unavailable, "{connecting:?}");
    assert!(connecting.to_string().contains("read-only"), "{connecting}");
    let locking = locks.mutex("free").unwrap().lock().await.unwrap_err();
    assert!(locking.to_string().contains("read-only"), "{locking}");
    // It cannot be renewed, so it is lost in time.
    tokio::time::timeout(Duration::from_secs(8), held.lost()).await.unwrap();
    run("SET GLOBAL read_only = 0").await;
    until("it serves again", async || {
        locks.mutex("free").unwrap().try_lock().await.is_ok_and(|held| held.is_some())
    })
    .await;
    drop(held);
    until("nothing is left", async || locks.names("", None).await.is_ok_and(|names| names.is_empty())).await;
    locks.close().await.unwrap();
    run("DROP USER 'ordinary'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_full_server_is_told() {
    let _alone = alone().await;
    let url = ordinary_user().await;
    let before = &run("SELECT @@GLOBAL.max_connections").await[0][0];
    run("SET GLOBAL max_connections = 10").await; // the least that a MariaDB takes
    let mut others = Vec::new();
    let full = loop {
        assert!(others.len() < 100, "a server for 10 connections accepts 100 clients");
        match Store::open(&url).unwrap().connect(Options::new().namespace("full")).await {
            Ok(locks) => others.push(locks),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::Unavailable, "{full:?}");
    assert!(full.to_string().contains("max_connections"), "{full}");
    // Those that are connected go on.
    for locks in &others {
        locks.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    }
    run(&format!("SET GLOBAL max_connections = {before}")).await;
    for locks in others {
        locks.close().await.unwrap();
    }
    run("DROP USER 'ordinary'@'%'").await;
}

/// Every kind of lock, a wait, and a hand-off.
async fn locks_work(namespace: &str) {
    let (a, b): (Arc<dyn Locks>, Arc<dyn Locks>) = (client(namespace).await, client(namespace).await);
    let mut newest = None;
    for _ in 0..3 {
        let held = a.mutex("mutex").unwrap().lock().await.unwrap();
        let mutex = b.mutex("mutex").unwrap();
        assert!(mutex.try_lock().await.unwrap().is_none());
        let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
        until("it waits", async || a.inspect("mutex").await.unwrap().waiters().count() == 1).await;
        assert!(newest < Some(held.token()));
        held.release().await.unwrap();
        let next = waiting.await.unwrap();
        newest = Some(next.token());
        next.release().await.unwrap();
    }
    let rwlock = a.rwlock("rwlock").unwrap();
    let readers = [rwlock.read().await.unwrap(), rwlock.read().await.unwrap()];
    assert!(b.rwlock("rwlock").unwrap().try_write().await.unwrap().is_none());
    drop(readers);
    let permits = a.semaphore("semaphore", 3).unwrap().acquire(2).await.unwrap();
    assert!(b.semaphore("semaphore", 3).unwrap().try_acquire(2).await.unwrap().is_none());
    drop(permits);
    a.close().await.unwrap();
    b.close().await.unwrap();
}

/// A lock inside a transaction of the user.
async fn transactions_work(namespace: &str) {
    let (a, b): (Arc<dyn Locks>, Arc<dyn Locks>) = (client(namespace).await, client(namespace).await);
    let pool = pool().await;
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*a, &mut transaction, "inside").await.unwrap();
    assert!(b.mutex("inside").unwrap().try_lock().await.unwrap().is_none());
    transaction.commit().await.unwrap();
    until("it is free", async || b.mutex("inside").unwrap().try_lock().await.unwrap().is_some()).await;
    a.close().await.unwrap();
    b.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_servers_defaults_do_not_matter() {
    let _alone = alone().await;
    // What also makes a user's own transactions read-only, or ends their connections, is no matter of ours.
    const FOR_LOCKS: [&str; 2] = ["tx_read_only", "completion_type"];
    for (variable, value) in [
        ("tx_isolation", "'SERIALIZABLE'"),
        ("tx_isolation", "'READ-UNCOMMITTED'"),
        ("autocommit", "0"),
        ("sql_mode", "'ANSI,PIPES_AS_CONCAT,NO_UNSIGNED_SUBTRACTION,NO_BACKSLASH_ESCAPES'"),
        ("time_zone", "'+13:00'"),
        ("innodb_snapshot_isolation", "1"),
        ("group_concat_max_len", "4"),
        ("tx_read_only", "1"),
        ("completion_type", "'RELEASE'"),
        ("sql_safe_updates", "1"),
        ("sql_select_limit", "1"),
        ("max_join_size", "1"),
    ] {
        let before = &run(&format!("SELECT @@GLOBAL.{variable}")).await[0][0];
        run(&format!("SET GLOBAL {variable} = {value}")).await;
        let namespace = format!("{variable} is {value}");
        locks_work(&namespace).await;
        if !FOR_LOCKS.contains(&variable) {
            transactions_work(&namespace).await;
        }
        let quoted = if before.parse::<u64>().is_ok() { before.clone() } else { format!("'{before}'") };
        run(&format!("SET GLOBAL {variable} = {quoted}")).await;
    }
}
