//! The server of these tests.
#![allow(dead_code, unused_imports)] // each test program uses only a part

mod middleman;
mod program;

pub(crate) use middleman::{BUSY, DENIED, FULL, Middleman, SLOW};
pub(crate) use program::{Program, folder};
use tidelock_conformance::callers::Caller;
pub(crate) use tidelock_conformance::callers::{
    is_held, join, name, namespace, options, turn, until, weight,
};
use tidelock_etcd::etcd_client::Client;
use tidelock_etcd::{Options, Store};

/// The server's URL: a single server, open to everyone.
pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_ETCD_URL").expect("TIDELOCK_ETCD_URL is the server; cargo xtask test sets it")
}

/// The server's `HOST:PORT`.
pub(crate) fn host() -> String {
    url().trim_start_matches("etcd://").to_owned()
}

/// A plain connection, without Tidelock.
pub(crate) async fn plain() -> Client {
    Client::connect([host()], None).await.unwrap()
}

/// The server, open to everyone.
pub(crate) fn store() -> Store {
    Store::open(&url()).unwrap()
}

/// Two clients of the server.
pub(crate) async fn two(options: &Options) -> [Caller; 2] {
    Caller::two(&store(), options).await
}
