//! The server that the tests were given, and what an operator does there.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tidelock_mysql::{Locks, Options, Store};
use tokio::time::Instant;

/// For a while some tests make the second server read-only, and then it refuses the locks of ordinary users.
pub(crate) static SECOND_SERVER: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_MARIADB_URL").unwrap()
}

/// The URL of the same server for another user, or another database.
pub(crate) fn url_of(user: &str, database: &str) -> String {
    let url = url();
    let place = url.split('@').nth(1).unwrap().split('/').next().unwrap();
    format!("mysql://{user}@{place}/{database}")
}

async fn operator(url: &str) -> MySqlConnection {
    MySqlConnectOptions::from_str(url).unwrap().disable_statement_logging().connect().await.unwrap()
}

pub(crate) async fn run(text: &str) -> Vec<Vec<String>> {
    run_at(&url(), text).await
}

pub(crate) async fn run_at(url: &str, text: &str) -> Vec<Vec<String>> {
    let mut operator = operator(url).await;
    let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut operator).await.unwrap();
    let shown = |row: &sqlx::mysql::MySqlRow| {
        let value = |at| row.try_get_unchecked::<Option<&[u8]>, _>(at).unwrap().unwrap_or_default();
        (0..row.len()).map(|at| String::from_utf8_lossy(value(at)).into_owned()).collect()
    };
    rows.iter().map(shown).collect()
}

/// How many statements of these kinds the server has executed.
pub(crate) async fn statements() -> u64 {
    run("SHOW GLOBAL STATUS LIKE 'Questions'").await[0][1].parse().unwrap()
}

pub(crate) async fn pool() -> MySqlPool {
    MySqlPoolOptions::new().max_connections(10).connect(&url()).await.unwrap()
}

/// A client in a namespace of the test's own.
pub(crate) async fn client(namespace: &str) -> Arc<dyn Locks> {
    client_with(Options::new().namespace(namespace)).await
}

pub(crate) async fn client_with(options: Options) -> Arc<dyn Locks> {
    Store::open(&url()).unwrap().connect(options).await.unwrap()
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_secs(20), "this did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
