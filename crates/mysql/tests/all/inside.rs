//! Locking inside the caller's own transaction.

use std::convert::Infallible;
use std::time::Duration;

use tidelock_mysql::{
    ErrorKind, TransactionError, in_transaction, lock_all_in, lock_in, lock_in_within, try_lock_in,
};
use tokio::time::Instant;

use crate::server::{client, pool, run, until};

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
            assert!(asked.elapsed() < Duration::from_secs(1), "{name} took {:?}", asked.elapsed());
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
