//! Bad input and trouble: each has a typed error that says what to do.

use std::time::Duration;

use tidelock_conformance::callers::namespace;
use tidelock_mysql::{ErrorKind, MIGRATION, Options, Store, lock_all_in};

use crate::server::{client, run, url, url_of};

async fn refused(url: &str) -> tidelock_mysql::Error {
    let options = Options::new().connect_deadline(Duration::from_secs(5));
    Store::open(url).unwrap().connect(options).await.unwrap_err()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_grant_of_the_guide_is_enough_and_nothing_less_is() {
    run("CREATE DATABASE IF NOT EXISTS tidelock_least; \
         CREATE OR REPLACE USER 'least'@'%' IDENTIFIED BY 'secret'")
    .await;
    let url = url_of("least:secret", "tidelock_least");
    let denied = refused(&url).await;
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied:?}");
    assert!(denied.to_string().contains("GRANT"), "{denied}");
    assert!(!format!("{denied:?}").contains("secret"));
    run("GRANT SELECT, INSERT, UPDATE, DELETE ON tidelock_least.* TO 'least'@'%'").await;
    // The tables are not there, and this user may not create them.
    let denied = refused(&url).await;
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied:?}");
    assert!(denied.to_string().contains("CREATE"), "{denied}");
    let by_hand = Store::open(&url).unwrap().migrate(false).connect(Options::new()).await.unwrap_err();
    assert!(by_hand.to_string().contains("MIGRATION"), "{by_hand}");
    run(&format!("USE tidelock_least; {MIGRATION}")).await;
    let locks = Store::open(&url).unwrap().migrate(false).connect(Options::new()).await.unwrap();
    locks.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
    for right in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
        run(&format!("REVOKE {right} ON tidelock_least.* FROM 'least'@'%'")).await;
        let denied = refused(&url).await;
        assert_eq!(denied.kind(), ErrorKind::Denied, "without {right}: {denied:?}");
        assert!(denied.to_string().contains(right), "without {right}: {denied}");
        run(&format!("GRANT {right} ON tidelock_least.* TO 'least'@'%'")).await;
    }
    run("DROP USER 'least'@'%'; DROP DATABASE tidelock_least").await;
}

/// The tables are in a database of their own, and the user of the transactions is another one.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_locks_inside_a_transaction_needs_two_tables_and_no_more() {
    run(&format!(
        "DROP DATABASE IF EXISTS tidelock_apart; CREATE DATABASE tidelock_apart; USE tidelock_apart; {MIGRATION} \
         DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; CREATE OR REPLACE USER 'shop'@'%'; \
         GRANT ALL ON shop.* TO 'shop'@'%'; GRANT SELECT, UPDATE ON tidelock_apart.tidelock_slot TO 'shop'@'%'; \
         GRANT SELECT ON tidelock_apart.tidelock_version TO 'shop'@'%'"
    ))
    .await;
    let store = Store::open(&url_of("root", "tidelock_apart")).unwrap();
    let (locks, other) =
        (store.connect(Options::new()).await.unwrap(), store.connect(Options::new()).await.unwrap());
    let pool = sqlx::mysql::MySqlPoolOptions::new().connect(&url_of("shop", "shop")).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    lock_all_in(&*locks, &mut transaction, &["stock", "till"]).await.unwrap();
    assert!(other.mutex("stock").unwrap().try_lock().await.unwrap().is_none());
    transaction.commit().await.unwrap();
    other.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
    run("DROP DATABASE tidelock_apart; DROP DATABASE shop; DROP USER 'shop'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_wrong_password_and_an_unknown_database_are_told() {
    run("CREATE OR REPLACE USER 'known'@'%' IDENTIFIED BY 'right'").await;
    let denied = refused(&url_of("known:wrong", "tidelock")).await;
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied:?}");
    assert!(
        denied.to_string().contains("password") && !format!("{denied:?}").contains("wrong@"),
        "{denied:?}"
    );
    let unknown = refused(&url_of("root", "nowhere")).await;
    assert_eq!(unknown.kind(), ErrorKind::InvalidOption, "{unknown:?}");
    run("DROP USER 'known'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn tables_of_another_program_or_another_version_are_told() {
    run("CREATE DATABASE IF NOT EXISTS tidelock_other; USE tidelock_other; \
         CREATE OR REPLACE TABLE tidelock_line (name INT) ENGINE=InnoDB")
    .await;
    let url = url_of("root", "tidelock_other");
    let other = refused(&url).await;
    assert_eq!(other.kind(), ErrorKind::Protocol, "{other:?}");
    assert!(other.to_string().contains("other columns"), "{other}");
    run(&format!(
        "USE tidelock_other; DROP TABLE tidelock_line; {MIGRATION} INSERT INTO tidelock_version VALUES (7, 0)"
    ))
    .await;
    let newer = refused(&url).await;
    assert_eq!(newer.kind(), ErrorKind::Unsupported, "{newer:?}");
    assert!(newer.to_string().contains("newer"), "{newer}");
    run("DROP DATABASE tidelock_other").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_user_of_few_connections_is_told() {
    run("CREATE OR REPLACE USER 'few'@'%' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON tidelock.* TO 'few'@'%'")
        .await;
    let few = refused(&url_of("few", "tidelock")).await;
    assert_eq!(few.kind(), ErrorKind::Unavailable, "{few:?}");
    assert!(few.to_string().contains("connections"), "{few}");
    run("DROP USER 'few'@'%'").await;
}

/// Connections end at any moment, as when a proxy is restarted, also right after they were used.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_close_whose_connections_have_just_ended_leaves_nothing() {
    run("CREATE OR REPLACE USER 'cut'@'%'; GRANT ALL ON tidelock.* TO 'cut'@'%'").await;
    let store = Store::open(&url_of("cut", "tidelock")).unwrap();
    for _ in 0..5 {
        let label = namespace("cut off"); // of its own
        let locks = store.connect(Options::new().namespace("cut").label(&label)).await.unwrap();
        let held = locks.mutex("stock").unwrap().lock().await.unwrap();
        locks.inspect("stock").await.unwrap();
        held.release().await.unwrap();
        run("KILL USER 'cut'").await;
        locks.close().await.unwrap();
        let left = run(&format!("SELECT id FROM tidelock_session WHERE label = '{label}'")).await;
        assert!(left.is_empty(), "{left:?}");
    }
    run("DROP USER 'cut'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn names_are_bytes() {
    let locks = client("names").await;
    let mut held = Vec::new();
    for name in ["a", "A", "a ", "ä", "a'; DROP TABLE tidelock_line; --", "a\\", "%", "_"] {
        let guard = locks.mutex(name).unwrap().try_lock().await.unwrap();
        held.push(guard.unwrap_or_else(|| panic!("{name:?} is another name")));
    }
    let names = locks.names("a", None).await.unwrap();
    assert_eq!(names.len(), 4, "{names:?}");
    drop(held);
    locks.close().await.unwrap();
    assert!(Store::open(&url()).is_ok());
}

/// A node of Galera that has lost its cluster refuses everything with this number. A trigger says the same here.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_node_that_has_lost_its_cluster_is_told() {
    run(&format!("CREATE DATABASE IF NOT EXISTS tidelock_node; USE tidelock_node; {MIGRATION}")).await;
    let url = url_of("root", "tidelock_node");
    let locks = Store::open(&url).unwrap().connect(Options::new()).await.unwrap();
    let held = locks.mutex("before").unwrap().lock().await.unwrap();
    let signal = "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047, \
                  MESSAGE_TEXT = 'WSREP has not yet prepared node for application use'";
    run(&format!(
        "USE tidelock_node; CREATE TRIGGER gone_l BEFORE INSERT ON tidelock_line FOR EACH ROW {signal}"
    ))
    .await;
    run(&format!(
        "USE tidelock_node; CREATE TRIGGER gone_s BEFORE INSERT ON tidelock_session FOR EACH ROW {signal}"
    ))
    .await;
    let node = refused(&url).await;
    assert_eq!(node.kind(), ErrorKind::Unavailable, "{node:?}");
    assert!(node.to_string().contains("Galera"), "{node}");
    let brisk = Options::new().command_deadline(Duration::from_millis(300)).namespace("brisk");
    assert!(Store::open(&url).unwrap().connect(brisk).await.is_err());
    run("USE tidelock_node; DROP TRIGGER gone_l; DROP TRIGGER gone_s").await;
    assert!(locks.mutex("after").unwrap().lock().await.is_ok());
    held.release().await.unwrap();
    locks.close().await.unwrap();
    run("DROP DATABASE tidelock_node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn clients_that_come_first_together_create_the_tables_together() {
    for _ in 0..3 {
        run("CREATE DATABASE tidelock_new").await;
        let store = Store::open(&url_of("root", "tidelock_new")).unwrap();
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let store = store.clone();
            clients.spawn(async move { store.connect(Options::new()).await });
        }
        for locks in clients.join_all().await {
            locks.unwrap().close().await.unwrap();
        }
        run("DROP DATABASE tidelock_new").await;
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn tables_that_are_older_or_missing_are_told_and_made_by_hand() {
    run("CREATE DATABASE IF NOT EXISTS tidelock_old").await;
    let store = Store::open(&url_of("root", "tidelock_old")).unwrap();
    let missing = store.clone().migrate(false).connect(Options::new()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Protocol, "{missing:?}");
    assert!(missing.to_string().contains("MIGRATION"), "{missing}");
    run(&format!("USE tidelock_old; {MIGRATION} {MIGRATION}")).await; // twice does no harm
    run("USE tidelock_old; UPDATE tidelock_version SET version = 0").await;
    let older = store.clone().migrate(false).connect(Options::new()).await.unwrap_err();
    assert_eq!(older.kind(), ErrorKind::Unsupported, "{older:?}");
    assert!(older.to_string().contains("version 0"), "{older}");
    run("USE tidelock_old; UPDATE tidelock_version SET version = 1").await;
    store.migrate(false).connect(Options::new()).await.unwrap().close().await.unwrap();
    run("DROP DATABASE tidelock_old").await;
}

/// The pool may be of any size and belong to any runtime: Tidelock takes no connection of it.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_pool_of_the_users_own_says_where_the_server_is() {
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&url()).await.unwrap();
    let only = pool.acquire().await.unwrap();
    let locks = Store::from_pool(&pool).unwrap().connect(Options::new().namespace("pool")).await.unwrap();
    locks.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    drop(only);
    pool.close().await;
    locks.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
}
