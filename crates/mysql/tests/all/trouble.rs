//! Bad input and trouble: each has a typed error that says what to do.

use std::time::Duration;

use tidelock_mysql::{ErrorKind, MIGRATION, Options, Store};

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
        "USE tidelock_other; DROP TABLE tidelock_line; {MIGRATION} INSERT INTO tidelock_version VALUES (7)"
    ))
    .await;
    let newer = refused(&url).await;
    assert_eq!(newer.kind(), ErrorKind::Unsupported, "{newer:?}");
    assert!(newer.to_string().contains("newer"), "{newer}");
    run("DROP DATABASE tidelock_other").await;
}

/// A server may be read-only for all but its administrators.
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
