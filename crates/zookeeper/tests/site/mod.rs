//! The server of these tests.
#![allow(dead_code, unused_imports)] // each test program uses only a part

pub(crate) mod way;

use std::time::Duration;

use tidelock_conformance::callers::Caller;
pub(crate) use tidelock_conformance::callers::{
    is_held, join, name, namespace, options, turn, until, weight,
};
use tidelock_zookeeper::{Options, Store};

/// The server's URL: a single server, open to everyone.
pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_ZOOKEEPER_URL")
        .expect("TIDELOCK_ZOOKEEPER_URL is the server; cargo xtask test sets it")
}

/// The server's `HOST:PORT`.
pub(crate) fn host() -> String {
    url().trim_start_matches("zookeeper://").to_owned()
}

/// A plain connection, without Tidelock.
pub(crate) async fn plain() -> zookeeper_client::Client {
    let connector = zookeeper_client::Client::connector().with_session_timeout(Duration::from_secs(60));
    connector.connect(&host()).await.unwrap()
}

/// The server, open to everyone.
pub(crate) fn store() -> Store {
    Store::open(&url()).unwrap()
}

/// Two clients of the server.
pub(crate) async fn two(options: &Options) -> [Caller; 2] {
    Caller::two(&store(), options).await
}
