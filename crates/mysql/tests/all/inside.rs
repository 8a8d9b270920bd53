//! Locking inside the caller's own transaction.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use tidelock_conformance::callers::namespace;
use tidelock_conformance::{Proxy, Way};
use tidelock_mysql::{
    ErrorKind, Options, Store, TransactionError, in_transaction, lock_all_in, lock_in, lock_in_within,
    try_lock_in,
};
use tokio::time::Instant;

use crate::server::{SECOND_SERVER, client, client_with, pool, run, run_at, until, url, url_of};

/// The work has ended with an error of its own, and the connection carries nothing any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_rollback_on_a_silent_connection_keeps_nobody_waiting() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let far = url().replace(&place, &proxy.address().to_string());
    let far = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&far).await.unwrap();
    let locks = client(&namespace("silent")).await;
    let work = in_transaction(&*locks, &far, &["stock"], |_, _| {
        proxy.hold(Way::There);
        Box::pin(async { Err::<(), _>(TransactionError::Work("sold out")) })
    });
    let done = tokio::time::timeout(Duration::from_secs(5), work).await.expect("it waits for the connection");
    assert!(matches!(done, Err(TransactionError::Work("sold out"))), "{done:?}");
    proxy.cut();
    let next = tokio::time::timeout(Duration::from_secs(5), locks.mutex("stock").unwrap().lock()).await;
    next.expect("its connection has ended").unwrap().release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

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
    let mut transaction = pool.begin().await.unwrap();
    assert!(lock_in_within(&*locks, &mut transaction, "stock", Duration::MAX).await.unwrap().is_some());
    transaction.rollback().await.unwrap();
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
    assert_eq!(other.inspect("stock").await.unwrap().holders().count(), 1, "an operator sees who holds");
    assert_eq!(other.names("", None).await.unwrap().len(), 1);
    transaction.commit().await.unwrap();
    assert_eq!(other.inspect("stock").await.unwrap().holders().count(), 0);
    assert!(other.names("", None).await.unwrap().is_empty());
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

/// Its claim leaves as void then, for all that core knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_rollback_gives_a_lock_back_whose_first_answer_was_lost() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let options = Options::new().namespace(&namespace("unanswered"));
    let locks = Store::open(&through).unwrap().connect(options.clone()).await.unwrap();
    let (other, pool) = (client_with(options).await, pool().await);
    let mutex = other.mutex("stock").unwrap();
    for _ in 0..2 {
        let mut transaction = pool.begin().await.unwrap();
        proxy.delay(Way::Back, Duration::from_millis(700)); // longer than it takes to see the holder
        let cutting = async {
            until("it holds", async || other.inspect("stock").await.unwrap().holders().count() == 1).await;
            proxy.reset();
            proxy.heal();
        };
        let (token, ()) = tokio::join!(lock_in(&*locks, &mut transaction, "stock"), cutting);
        token.unwrap();
        let holder = other.inspect("stock").await.unwrap().holders().next().unwrap().id;
        assert_eq!(locks.evict("stock", holder).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(mutex.try_lock().await.unwrap().is_none());
        transaction.rollback().await.unwrap();
        let next = mutex.lock_within(Duration::from_secs(3)).await.unwrap();
        next.expect("the rollback gave it back").release().await.unwrap();
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// The future is dropped while the claim is on its way inside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_cancelled_lock_is_given_back_whose_first_answer_was_lost() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let options = Options::new().namespace(&namespace("unanswered and cancelled"));
    let locks = Store::open(&through).unwrap().connect(options.clone()).await.unwrap();
    let (other, (slow, _slowly)) = (client_with(options).await, slow_pool(Duration::from_secs(1)).await);
    let mut transaction = slow.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1").execute(&mut *transaction).await.unwrap();
    proxy.delay(Way::Back, Duration::from_millis(700)); // longer than it takes to see the holder
    let cutting = async {
        until("it holds", async || other.inspect("stock").await.unwrap().holders().count() == 1).await;
        proxy.reset();
        proxy.heal();
        tokio::time::sleep(Duration::from_millis(500)).await; // the join is repeated, and the stamp on its way
    };
    tokio::select! {
        biased;
        locked = lock_in(&*locks, &mut transaction, "stock") => panic!("{locked:?} came too early"),
        () = cutting => {}
    }
    drop(transaction);
    let next = other.mutex("stock").unwrap().lock_within(Duration::from_secs(5)).await.unwrap();
    next.expect("it was given back").release().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
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

/// The server was away for the whole close, and is there again.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_that_could_not_be_closed_asks_nothing_although_its_transaction_is_open() {
    run("CREATE OR REPLACE USER 'parting'@'%'; GRANT ALL ON tidelock.* TO 'parting'@'%'").await;
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url_of("parting", "tidelock").replace(&place, &proxy.address().to_string());
    let options =
        Options::new().namespace(&namespace("parting")).command_deadline(Duration::from_millis(500));
    let locks = Store::open(&through).unwrap().connect(options).await.unwrap();
    let pool = pool().await;
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    proxy.cut();
    let closed = locks.close_within(Duration::from_secs(1)).await;
    assert!(closed.is_err(), "the server was away");
    drop(locks);
    proxy.heal();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        let there = run("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'parting'").await;
        assert!(there.is_empty(), "after {:?} it is there again", began.elapsed());
    }
    transaction.commit().await.unwrap();
    run("DROP USER 'parting'@'%'").await;
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

/// Another member of a MySQL's group was quicker, which the commit is told. A trigger says the same here.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_that_its_group_has_rolled_back_is_run_again_from_the_beginning() {
    run("CREATE OR REPLACE TABLE inside_group (n INT) ENGINE=InnoDB; INSERT INTO inside_group VALUES (0); \
         CREATE TRIGGER inside_group BEFORE UPDATE ON inside_group FOR EACH ROW BEGIN \
         SET @tries = COALESCE(@tries, 0) + 1; \
         IF @tries < 3 THEN SIGNAL SQLSTATE '40000' SET MYSQL_ERRNO = 3101; END IF; END")
    .await;
    let locks = client("inside 14").await;
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&url()).await.unwrap();
    let done = in_transaction(&*locks, &pool, &["stock"], |connection, _| {
        Box::pin(async {
            sqlx::raw_sql("UPDATE inside_group SET n = n + 1").execute(connection).await?;
            Ok::<_, TransactionError<Infallible>>(())
        })
    });
    done.await.unwrap();
    assert_eq!(run("SELECT n FROM inside_group").await, [["1"]]);
    locks.close().await.unwrap();
    run("DROP TABLE inside_group").await;
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

/// The server accepts writes, so it is not said to be a replica.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_that_only_reads_is_refused() {
    let (locks, pool) = (client("inside 13").await, pool().await);
    let mut transaction = pool.begin_with("START TRANSACTION READ ONLY").await.unwrap();
    let refused = lock_in(&*locks, &mut transaction, "stock").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused:?}");
    assert!(refused.to_string().contains("READ ONLY"), "{refused}");
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    locks.close().await.unwrap();
}

/// The stamp would be committed by itself, and nobody kept out.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_that_has_ended_already_is_refused() {
    let (locks, pool) = (client("inside 15").await, pool().await);
    // A statement that commits by itself; and a rollback, as a deadlock makes one that the user overlooks.
    for ends in ["CREATE OR REPLACE TABLE inside_ended (n INT)", "ROLLBACK"] {
        let mut transaction = pool.begin().await.unwrap();
        sqlx::raw_sql(ends).execute(&mut *transaction).await.unwrap();
        let refused = lock_in(&*locks, &mut transaction, "stock").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
        assert!(refused.to_string().contains("start it over"), "{refused}");
        until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    }
    locks.close().await.unwrap();
    run("DROP TABLE inside_ended").await;
}

/// Replication copies the number by which a store is known, too.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_on_a_copy_of_the_store_is_refused() {
    let _alone = SECOND_SERVER.lock().await;
    let twin = |url: &str| format!("{}/twin", url.rsplit_once('/').unwrap().0);
    let (here, there) = (url(), std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap());
    run_at(&there, "SET GLOBAL server_id = 2").await; // as each server of a replication has its own
    for url in [&here, &there] {
        run_at(url, "DROP DATABASE IF EXISTS twin; CREATE DATABASE twin").await;
        Store::open(&twin(url)).unwrap().connect(Options::new()).await.unwrap().close().await.unwrap();
    }
    let store = &run_at(&twin(&here), "SELECT store FROM tidelock_version").await[0][0];
    run_at(&twin(&there), &format!("UPDATE tidelock_version SET store = {store}")).await;
    let locks = Store::open(&twin(&here)).unwrap().connect(Options::new()).await.unwrap();
    let pool = sqlx::mysql::MySqlPoolOptions::new().connect(&twin(&there)).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    let refused = lock_in(&*locks, &mut transaction, "stock").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused:?}");
    assert!(refused.to_string().contains("server"), "{refused}");
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
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

/// A server ends a connection that is idle, also one whose transaction waits for its turn, and rolls back.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_that_was_ended_while_it_waited_is_run_again_from_the_beginning() {
    let options = Options::new().namespace(&namespace("ended"));
    let (locks, other) = (client_with(options.clone()).await, client_with(options).await);
    let newest = Arc::new(AtomicU64::new(0));
    let connected = newest.clone();
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).after_connect(move |connection, _| {
        let connected = connected.clone();
        Box::pin(async move {
            sqlx::raw_sql("SET SESSION wait_timeout = 2").execute(&mut *connection).await?;
            let id = sqlx::query_scalar("SELECT CONNECTION_ID()").fetch_one(connection).await?;
            connected.store(id, Ordering::Relaxed);
            Ok(())
        })
    });
    let pool = pool.connect(&url()).await.unwrap();
    let mutex = other.mutex("stock").unwrap();
    for is_killed in [false, true] {
        let ends = async || {
            until("it waits", async || other.inspect("stock").await.unwrap().waiters().count() == 1).await;
            let id = newest.load(Ordering::Relaxed);
            if is_killed {
                run(&format!("KILL {id}")).await;
            }
            let is_there = format!("SELECT id FROM information_schema.PROCESSLIST WHERE id = {id}");
            until("the server has ended it", async || run(&is_there).await.is_empty()).await;
        };
        let held = mutex.lock().await.unwrap();
        let free = async {
            ends().await;
            held.release().await.unwrap();
        };
        let mut transaction = pool.begin().await.unwrap();
        let (refused, ()) = tokio::join!(lock_in(&*locks, &mut transaction, "stock"), free);
        assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::Conflict, "{is_killed}: {refused:?}");
        drop(transaction);
        let held = mutex.lock().await.unwrap();
        let free = async {
            ends().await;
            held.release().await.unwrap();
        };
        let mut runs = 0;
        let running = in_transaction(&*locks, &pool, &["stock"], |_, _| {
            runs += 1;
            Box::pin(async { Ok::<_, TransactionError<Infallible>>(()) })
        });
        let (done, ()) = tokio::join!(running, free);
        done.unwrap();
        assert_eq!(runs, 1);
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// A firewall has forgotten the connection of the transaction while that waited for its turn.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_connection_that_died_silently_while_it_waited_keeps_nobody_out() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let options = Options::new().namespace(&namespace("forgotten")).command_deadline(Duration::from_secs(1));
    let (locks, other) = (client_with(options.clone()).await, client_with(options).await);
    let mutex = other.mutex("stock").unwrap();
    for runs_it in [false, true] {
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&through).await.unwrap();
        let held = mutex.lock().await.unwrap();
        let locking = async {
            let locked = if runs_it {
                let work = in_transaction(&*locks, &pool, &["stock"], |_, _| {
                    Box::pin(async { Ok::<_, TransactionError<Infallible>>(()) })
                });
                let Err(TransactionError::Lock(refused)) = work.await else { panic!("it ran") };
                Err(refused)
            } else {
                let mut transaction = pool.begin().await.unwrap();
                lock_in_within(&*locks, &mut transaction, "stock", Duration::from_secs(10)).await
            };
            (locked.unwrap_err(), Instant::now())
        };
        let breaking = async {
            until("it waits", async || other.inspect("stock").await.unwrap().waiters().count() == 1).await;
            proxy.break_quietly();
            held.release().await.unwrap();
            Instant::now()
        };
        let both = async { tokio::join!(locking, breaking) };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        let ((refused, end), begin) = both.expect("it waits for a connection that nobody answers on");
        assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused:?}");
        assert!(end - begin < Duration::from_secs(2), "it took {:?}", end - begin);
        let next = mutex.lock_within(Duration::from_secs(1)).await.unwrap().expect("it is free");
        next.release().await.unwrap();
        if runs_it {
            // What it began ends without an answer, so that the pool can make another connection.
            tokio::time::timeout(Duration::from_secs(20), pool.acquire()).await.unwrap().unwrap();
        }
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// Its rollback would wait for as long as TCP tries.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_whose_server_is_away_ends_when_its_lock_does() {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let options = Options::new().namespace(&namespace("away")).ttl(Duration::from_secs(2));
    let other = client_with(options.clone()).await;
    let locks = Store::open(&through).unwrap().connect(options).await.unwrap();
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&through).await.unwrap();
    let held = other.mutex("stock").unwrap().lock().await.unwrap();
    let work = in_transaction(&*locks, &pool, &["stock"], |_, _| {
        Box::pin(async { Ok::<_, TransactionError<Infallible>>(()) })
    });
    let breaking = async {
        until("it waits", async || other.inspect("stock").await.unwrap().waiters().count() == 1).await;
        proxy.hold(Way::There);
        proxy.hold(Way::Back);
    };
    let both = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(work, breaking) }).await;
    let (done, ()) = both.expect("it waits for a server that is away");
    let Err(TransactionError::Lock(error)) = done else { panic!("it ran") };
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Lost), "{error:?}");
    proxy.heal();
    // What it began ends with its connection, so that the pool can make another one.
    tokio::time::timeout(Duration::from_secs(20), pool.acquire()).await.unwrap().unwrap();
    held.release().await.unwrap().confirmed().unwrap();
    let _ = locks.close().await; // its session is over
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

/// The first read of a transaction begins its snapshot, and a lock is no read.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_was_committed_while_a_transaction_waited_for_its_last_lock_is_read() {
    run("CREATE OR REPLACE TABLE inside_waited (n INT) ENGINE=InnoDB; INSERT INTO inside_waited VALUES (0)")
        .await;
    let (locks, other, pool) = (client("inside 11").await, client("inside 11").await, pool().await);
    for way in 1..=3 {
        let mut theirs = pool.begin().await.unwrap();
        lock_in(&*other, &mut theirs, "b").await.unwrap();
        let changing = async {
            until("it waits", async || other.inspect("b").await.unwrap().waiters().count() == 1).await;
            sqlx::raw_sql("UPDATE inside_waited SET n = n + 1").execute(&mut *theirs).await.unwrap();
            theirs.commit().await.unwrap();
        };
        let reading = async {
            if way == 3 {
                let found = in_transaction(&*locks, &pool, &["a", "b"], |connection, _| {
                    Box::pin(async {
                        Ok::<_, TransactionError<Infallible>>(read(connection, "inside_waited").await)
                    })
                });
                return found.await.unwrap();
            }
            let mut ours = pool.begin().await.unwrap();
            if way == 2 {
                lock_all_in(&*locks, &mut ours, &["b", "a"]).await.unwrap();
            } else {
                lock_in(&*locks, &mut ours, "a").await.unwrap();
                lock_in(&*locks, &mut ours, "b").await.unwrap();
            }
            let found = read(&mut ours, "inside_waited").await;
            ours.commit().await.unwrap();
            found
        };
        let (found, ()) = tokio::join!(reading, changing);
        assert_eq!(found, way, "it read what was before its last lock");
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
    run("DROP TABLE inside_waited").await;
}

/// Every other slot is inside another transaction here, so about half of the locks meet one that is not free.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_lock_begins_no_snapshot_although_its_first_slot_is_not_free() {
    run("CREATE OR REPLACE TABLE inside_slots (n INT) ENGINE=InnoDB; INSERT INTO inside_slots VALUES (0)")
        .await;
    let (locks, pool) = (client("inside 12").await, pool().await);
    let mut connection = pool.acquire().await.unwrap();
    // Otherwise it locks the slots, too, that it has only read.
    let reads = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    sqlx::raw_sql(reads).execute(&mut *connection).await.unwrap();
    let mut others = sqlx::Connection::begin(&mut *connection).await.unwrap();
    let half = "SELECT slot FROM tidelock_slot WHERE slot % 2 = 1 FOR UPDATE SKIP LOCKED";
    sqlx::raw_sql(half).fetch_all(&mut *others).await.unwrap();
    for number in 1..=20 {
        let mut transaction = pool.begin().await.unwrap();
        lock_in(&*locks, &mut transaction, &format!("name {number}")).await.unwrap();
        run("UPDATE inside_slots SET n = n + 1").await;
        assert_eq!(
            read(&mut transaction, "inside_slots").await,
            number,
            "its snapshot is older than its lock"
        );
        transaction.rollback().await.unwrap();
    }
    others.rollback().await.unwrap();
    locks.close().await.unwrap();
    run("DROP TABLE inside_slots").await;
}

/// The only number in this table, as the transaction sees it.
async fn read(transaction: &mut MySqlConnection, table: &str) -> i32 {
    let text = sqlx::AssertSqlSafe(format!("SELECT n FROM {table}"));
    sqlx::query_scalar(text).fetch_one(transaction).await.unwrap()
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

/// A pool whose requests take this long to the server.
async fn slow_pool(there: Duration) -> (sqlx::mysql::MySqlPool, Proxy) {
    let place = url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let proxy = Proxy::to(place.parse().unwrap()).await.unwrap();
    let through = url().replace(&place, &proxy.address().to_string());
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&through).await.unwrap();
    proxy.delay(Way::There, there);
    (pool, proxy)
}

/// The transaction has the hold of its task, and not of its client.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_hold_inside_a_transaction_is_not_passed_on() {
    let options = Options::new().namespace(&namespace("cohort")).linger(Duration::from_secs(3));
    let (locks, pool) = (client_with(options.clone()).await, pool().await);
    let other = client_with(options).await;
    for ends_well in [true, false] {
        let first = other.mutex("stock").unwrap().lock().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let mutex = locks.mutex("stock").unwrap();
        // The claim for the transaction has a slot, and no other task may ever get it: it is in no local line.
        let waiting = async || locks.inspect("stock").await.unwrap().waiters().count();
        let (inside, behind) = tokio::join!(biased; lock_in(&*locks, &mut transaction, "stock"), async {
            until("the first waits", async || waiting().await == 1).await;
            let behind = tokio::spawn(async move { mutex.lock().await.unwrap() });
            until("both wait", async || waiting().await == 2).await;
            first.release().await.unwrap();
            Some(behind)
        });
        let behind = behind.unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            assert!(!behind.is_finished(), "another task has the lock beside the transaction");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        match ends_well {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        let next = tokio::time::timeout(Duration::from_secs(2), behind).await.unwrap().unwrap();
        assert!(next.token() > inside.unwrap());
        next.release().await.unwrap();
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// The claim leaves before the statement arrives that brings it into the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_whose_client_was_closed_meanwhile_has_no_lock() {
    let space = namespace("closed meanwhile");
    let (slow, _proxy) = slow_pool(Duration::from_millis(700)).await;
    let (locks, other) = (client(&space).await, client(&space).await);
    let mut transaction = slow.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1").execute(&mut *transaction).await.unwrap();
    let closing = async {
        until("it holds", async || other.inspect("stock").await.unwrap().holders().count() == 1).await;
        locks.close().await.unwrap();
        other.mutex("stock").unwrap().lock().await.unwrap()
    };
    let (refused, next) = tokio::join!(lock_in(&*locks, &mut transaction, "stock"), closing);
    // `Closed` if the client was closed before it began to move the claim.
    let refused = refused.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Lost | ErrorKind::Closed), "{refused:?}");
    next.release().await.unwrap();
    drop(transaction);
    other.close().await.unwrap();
}

/// Nobody takes a claim away that a transaction has or is about to have, not even its own client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_has_a_transaction_cannot_evict_it_either() {
    let space = namespace("evicts itself");
    let (slow, _proxy) = slow_pool(Duration::from_millis(700)).await;
    let (locks, other) = (client(&space).await, client(&space).await);
    let mut transaction = slow.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1").execute(&mut *transaction).await.unwrap();
    let evict = async || {
        let holder = other.inspect("stock").await.unwrap().holders().next().unwrap().id;
        locks.evict("stock", holder).await
    };
    let evicting = async || {
        until("it holds", async || other.inspect("stock").await.unwrap().holders().count() == 1).await;
        evict().await
    };
    let mut tries = 0..5;
    let token = loop {
        assert!(tries.next().is_some(), "it was always evicted");
        let (token, evicted) = tokio::join!(lock_in(&*locks, &mut transaction, "stock"), evicting());
        if matches!(evicted, Ok(true)) {
            token.unwrap_err(); // the server showed it, and its client did not know yet that it holds
            continue;
        }
        assert_eq!(evicted.unwrap_err().kind(), ErrorKind::Conflict, "it is on its way");
        break token;
    };
    assert_eq!(evict().await.unwrap_err().kind(), ErrorKind::Conflict, "it is there");
    let mutex = other.mutex("stock").unwrap();
    assert!(mutex.lock_within(Duration::from_millis(300)).await.unwrap().is_none());
    transaction.commit().await.unwrap();
    assert!(mutex.lock().await.unwrap().token() > token.unwrap());
    locks.close().await.unwrap();
    other.close().await.unwrap();
}
