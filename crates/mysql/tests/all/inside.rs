//! Locking inside the caller's own transaction.

use std::convert::Infallible;
use std::time::Duration;

use tidelock_conformance::callers::namespace;
use tidelock_conformance::{Proxy, Way};
use tidelock_mysql::{
    ErrorKind, Options, Store, TransactionError, in_transaction, lock_all_in, lock_in, lock_in_within,
    try_lock_in,
};
use tokio::time::Instant;

use crate::server::{client, client_with, pool, run, until, url, url_of};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_excludes_an_ordinary_lock_until_it_is_committed() {
    let (locks, other, pool) = (client("inside 1").await, client("inside 1").await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    let token = lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    let mutex = other.mutex("stock").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    until("the other waits", async || locks.inspect("stock").await.unwrap().waiters().count() == 1).await;
    transaction.commit().await.unwrap();
    let began = Instant::now();
    let next = waiting.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    assert!(next.token() > token);
    // And the other way round.
    let mut transaction = pool.begin().await.unwrap();
    assert!(try_lock_in(&*locks, &mut transaction, "stock").await.unwrap().is_none());
    let patience = Duration::from_millis(300);
    assert!(lock_in_within(&*locks, &mut transaction, "stock", patience).await.unwrap().is_none());
    next.release().await.unwrap();
    assert!(lock_in(&*locks, &mut transaction, "stock").await.unwrap() > token);
    transaction.rollback().await.unwrap();
    let after = other.mutex("stock").unwrap().lock().await.unwrap();
    after.release().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_rollback_gives_the_lock_back_and_nothing_is_left() {
    let (locks, pool) = (client("inside 2").await, pool().await);
    for _ in 0..3 {
        let mut transaction = pool.begin().await.unwrap();
        lock_all_in(&*locks, &mut transaction, &["b", "a", "b"]).await.unwrap();
        drop(transaction); // rolls back
    }
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_long_transaction_delays_nobody_on_another_name() {
    let (locks, other, pool) = (client("inside 3").await, client("inside 3").await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "long").await.unwrap();
    let (mutex, waiting) = (other.mutex("long").unwrap(), other.mutex("long").unwrap());
    let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        for name in ["short 1", "short 2"] {
            let asked = Instant::now();
            other.mutex(name).unwrap().lock().await.unwrap().release().await.unwrap();
            assert!(asked.elapsed() < Duration::from_secs(3), "{name} took {:?}", asked.elapsed());
        }
        // Waiters of the long name come and go meanwhile.
        assert!(mutex.lock_within(Duration::from_millis(300)).await.unwrap().is_none());
        assert!(mutex.try_lock().await.unwrap().is_none());
    }
    transaction.commit().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// The session that took it is dead, but the transaction still has the row.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_keeps_its_lock_although_its_session_is_over() {
    let (locks, other, pool) = (client("inside 4").await, client("inside 4").await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    locks.close().await.unwrap();
    let mutex = other.mutex("stock").unwrap();
    for _ in 0..10 {
        assert!(mutex.try_lock().await.unwrap().is_none());
    }
    transaction.commit().await.unwrap();
    until("it is free", async || mutex.try_lock().await.unwrap().is_some()).await;
    other.close().await.unwrap();
}

/// An eviction that is refused was no leave of one's own.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_could_not_evict_a_transaction_can_close() {
    let (locks, other, pool) = (client("inside 9").await, client("inside 9").await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    let holder = other.inspect("stock").await.unwrap().holders().next().unwrap().id;
    let refused = other.evict("stock", holder).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
    other.close().await.unwrap();
    assert!(locks.mutex("stock").unwrap().try_lock().await.unwrap().is_none());
    transaction.commit().await.unwrap();
    locks.close().await.unwrap();
}

/// Others find out by themselves when the transaction has ended.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_closed_client_asks_nothing_although_its_transaction_is_open() {
    run("CREATE OR REPLACE USER 'closing'@'%'; GRANT ALL ON tidelock.* TO 'closing'@'%'").await;
    let options = Options::new().namespace(&namespace("closing"));
    let store = Store::open(&url_of("closing", "tidelock")).unwrap();
    let (locks, other) = (store.connect(options.clone()).await.unwrap(), client_with(options).await);
    let pool = pool().await;
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    locks.close().await.unwrap();
    let connections = async || {
        let all = run("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'closing'").await;
        all.len()
    };
    until("it has no connections", async || connections().await == 0).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        assert_eq!(connections().await, 0);
        assert!(other.mutex("stock").unwrap().try_lock().await.unwrap().is_none());
    }
    transaction.commit().await.unwrap();
    other.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    other.close().await.unwrap();
    run("DROP USER 'closing'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_deadlock_with_the_users_own_rows_is_run_again_from_the_beginning() {
    run("DROP TABLE IF EXISTS inside_rows; CREATE TABLE inside_rows (id INT PRIMARY KEY, n INT) ENGINE=InnoDB; \
         INSERT INTO inside_rows VALUES (1, 0), (2, 0)")
    .await;
    let (locks, pool) = (client("inside 5").await, pool().await);
    let mut tasks = Vec::new();
    for number in 0..4_i32 {
        let (locks, pool) = (locks.clone(), pool.clone());
        tasks.push(tokio::spawn(async move {
            let (first, second) = if number % 2 == 0 { (1, 2) } else { (2, 1) };
            for _ in 0..10 {
                let name = format!("own {number}");
                // The rows are taken in opposite orders, so some of these transactions are rolled back.
                in_transaction(&*locks, &pool, &[&name], |connection, _| {
                    Box::pin(async move {
                        for id in [first, second] {
                            let update =
                                sqlx::query("UPDATE inside_rows SET n = n + 1 WHERE id = ?").bind(id);
                            update.execute(&mut *connection).await?;
                        }
                        Ok::<_, TransactionError<Infallible>>(())
                    })
                })
                .await
                .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(run("SELECT n FROM inside_rows").await, [["40"], ["40"]]);
    locks.close().await.unwrap();
    run("DROP TABLE inside_rows").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn locks_of_another_store_are_refused() {
    let (locks, pool) = (client("inside 6").await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    let bad = lock_in(&*locks, &mut transaction, "").await.unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidName);
    locks.close().await.unwrap();
}

/// Its claims are not there, so nobody would be kept out.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_on_another_server_is_refused() {
    let elsewhere = std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap();
    let there = Store::open(&elsewhere).unwrap().connect(Options::new()).await.unwrap(); // makes the tables
    let locks = client("inside 10").await;
    let pool = sqlx::mysql::MySqlPoolOptions::new().connect(&elsewhere).await.unwrap();
    for _ in 0..5 {
        let mut transaction = pool.begin().await.unwrap();
        let refused = lock_in(&*locks, &mut transaction, "stock").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused:?}");
        assert!(refused.to_string().contains("server"), "{refused}");
    }
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    there.close().await.unwrap();
    locks.close().await.unwrap();
}

/// The client machine is gone without a word, and the server does not know: the lock is held until the server gives up.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_connection_that_died_silently_holds_its_lock_until_wait_timeout() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let (locks, other) = (client("inside 7").await, client("inside 7").await);
    let through = url().replace(&place, &proxy.address().to_string());
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&through).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    sqlx::raw_sql("SET SESSION wait_timeout = 3").execute(&mut *transaction).await.unwrap();
    let token = lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    proxy.break_quietly();
    let began = Instant::now();
    let mutex = other.mutex("stock").unwrap();
    // As long as the server believes in the transaction, nobody gets in, however dead its client is.
    while began.elapsed() < Duration::from_secs(2) {
        assert!(mutex.try_lock().await.unwrap().is_none());
    }
    let next =
        mutex.lock_within(Duration::from_secs(10)).await.unwrap().expect("the server gave the row back");
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    assert!(next.token() > token);
    next.release().await.unwrap();
    drop(transaction);
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// A transaction with a snapshot may learn only at the lock that the row of the claim is newer.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_snapshot_that_is_older_than_the_claim_locks_or_says_start_over() {
    let (locks, other, pool) = (client("inside 8").await, client("inside 8").await, pool().await);
    for strict in [0, 1] {
        let mut connection = pool.acquire().await.unwrap();
        let strictly = format!("SET SESSION innodb_snapshot_isolation = {strict}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(strictly)).execute(&mut *connection).await.unwrap();
        let mut transaction = sqlx::Connection::begin(&mut *connection).await.unwrap();
        sqlx::raw_sql("SELECT COUNT(*) FROM tidelock_claim").execute(&mut *transaction).await.unwrap();
        match lock_in(&*locks, &mut transaction, "stock").await {
            Ok(_) => assert!(other.mutex("stock").unwrap().try_lock().await.unwrap().is_none()),
            Err(error) => {
                assert_eq!((strict, error.kind()), (1, ErrorKind::Conflict), "{error:?}");
                assert!(error.to_string().contains("start it over"), "{error}");
            }
        }
        transaction.rollback().await.unwrap();
        until("it is free", async || other.mutex("stock").unwrap().try_lock().await.unwrap().is_some()).await;
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// Who waits for a lock gets on after the server was away, and who holds keeps it.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_whose_server_was_away_gets_on() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let namespace = namespace("gone");
    // The row that another client sees may be that of a join whose answer is cut off: it is repeated for that long.
    let patient = Duration::from_secs(6);
    let options = Options::new().namespace(&namespace).ttl(Duration::from_secs(9)).command_deadline(patient);
    let far = Store::open(&through).unwrap().connect(options).await.unwrap();
    let near = client(&namespace).await;
    let held = near.mutex("stock").unwrap().lock().await.unwrap();
    let mutex = far.mutex("stock").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it waits", async || near.inspect("stock").await.unwrap().waiters().count() == 1).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(1)).await; // the outage itself
    held.release().await.unwrap();
    proxy.heal();
    let next = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap().unwrap();
    next.release().await.unwrap();
    // Away for longer than a ttl: the waiter is told, or stands in line again with a new session. Nothing is left.
    let held = near.mutex("stock").unwrap().lock().await.unwrap();
    let mutex = far.mutex("stock").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it waits", async || near.inspect("stock").await.unwrap().waiters().count() == 1).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(10)).await; // the outage itself
    held.release().await.unwrap();
    proxy.heal();
    match tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap() {
        Ok(next) => drop(next.release().await.unwrap()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
    }
    until("the client works again", async || far.mutex("stock").unwrap().try_lock().await.is_ok()).await;
    until("nothing is left", async || near.names("", None).await.unwrap().is_empty()).await;
    far.close().await.unwrap();
    near.close().await.unwrap();
}

/// The operator is quicker than the statement that brings the claim into the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_was_evicted_before_the_transaction_had_it_locks_nothing() {
    let space = namespace("evicted");
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let slow = url().replace(&place, &proxy.address().to_string());
    let slow = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&slow).await.unwrap();
    let (locks, other) = (client(&space).await, client(&space).await);
    let mut transaction = slow.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1").execute(&mut *transaction).await.unwrap();
    proxy.delay(Way::There, Duration::from_millis(700));
    let locking = async {
        let token = lock_in(&*locks, &mut transaction, "stock").await.unwrap();
        transaction.commit().await.unwrap();
        token
    };
    let evicting = async {
        until("it holds", async || other.inspect("stock").await.unwrap().holders().count() == 1).await;
        let claim = other.inspect("stock").await.unwrap().holders().next().unwrap().id;
        assert!(other.evict("stock", claim).await.unwrap());
        let next = other.mutex("stock").unwrap().lock().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await; // the statement arrives, and its answer
        let (token, end) = (next.token(), Instant::now());
        next.release().await.unwrap();
        (token, end)
    };
    let ((token, had), (next, end)) = tokio::join!(async { (locking.await, Instant::now()) }, evicting);
    assert!(had > end, "the transaction went on beside the next holder");
    assert!(token > next, "{token} is not after {next}");
    locks.close().await.unwrap();
    other.close().await.unwrap();
}
