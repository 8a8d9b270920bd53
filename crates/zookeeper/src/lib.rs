//! Tidelock in ZooKeeper: a line is a node, who stands in it are its children, and who waits watches one thing.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_zookeeper::Result<()> {
//! use tidelock_zookeeper::prelude::*;
//!
//! let locks = tidelock_zookeeper::connect("zookeeper://127.0.0.1").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One round trip to take** what is free, one to give it back. A hand-off is one event and one read, whoever else
//!   waits.
//! - **One session for everything** that a client holds and waits for. A session's end takes all of it along.
//! - **A token with every grant**: the transaction that made its node. It grows over restarts, elections, and nodes that
//!   are deleted and made anew.
//!
//! A name that nobody stands in is deleted by the server after a while; only the namespace's own node stays.
//!
//! Everything of `tidelock` is exported again here, so this is the one crate to depend on.

mod address;
mod books;
mod changing;
mod check;
mod connection;
mod dial;
mod gathering;
mod inspection;
mod joining;
mod lease;
mod leaving;
mod link;
mod listing;
mod nodes;
mod order;
mod reconnecting;
mod resized;
mod searching;
mod session;
mod settling;
mod silence;
mod store;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod trouble;
mod watching;

use std::sync::Arc;

pub use store::Store;
pub use tidelock::*;
#[cfg(feature = "tls")]
pub use tls::{ClientTlsConfig, TlsCertificates};

/// Locks in the ZooKeeper at `url`, with the default options. Share them in their `Arc`.
///
/// # Errors
/// When that is no URL of a ZooKeeper, or what is there cannot serve: [`Store::open`], [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url)?.connect(Options::new()).await
}
