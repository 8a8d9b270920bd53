//! Tidelock on ZooKeeper: a line is a node, the claims in it are its children, and a client watches one thing in a line
//! for all its waiters.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_zookeeper::Result<()> {
//! let locks = tidelock_zookeeper::connect("zookeeper://127.0.0.1").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One round trip to take** a free lock, one to give it back. A hand-off is one event and one read, however many
//!   wait.
//! - **One session for everything** that a client holds and waits for. When the session ends, all of it ends.
//! - **A token with every grant**: the transaction that created its node. Tokens grow across restarts, elections, and
//!   nodes that are deleted and created again.
//!
//! The server deletes the node of an unused name after a while; only the namespace's own node stays.
//!
//! This crate re-exports all of `tidelock-core`, so it is the only one to depend on.

mod address;
mod changing;
mod check;
mod connection;
mod dial;
mod gathering;
mod given_up;
mod inspection;
mod joining;
mod joins;
mod lease;
mod leaving;
mod link;
mod listing;
mod missing;
mod nodes;
mod open_session;
mod order;
mod own_claims;
mod reconnecting;
mod renewing;
mod request;
mod resized;
mod searches;
mod searching;
mod server_time;
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
mod watch;
mod watching;

use std::sync::Arc;

pub use store::Store;
#[cfg(feature = "tls")]
pub use tidelock_core::backend::{ClientTlsConfig, TlsCertificates};
pub use tidelock_core::*;

/// Locks in the ZooKeeper at `url`, with the default options. Share them in their `Arc`.
///
/// # Errors
/// When the URL is not one of a ZooKeeper, or the server there cannot be used: see [`Store::open`] and
/// [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url).map_err(|error| error.during("connect"))?.connect(Options::new()).await
}
