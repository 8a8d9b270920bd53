//! Tidelock in Redis: a line in the server, one script for each operation, and grants that are pushed.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
//! use tidelock_redis::prelude::*;
//!
//! let locks = tidelock_redis::connect("redis://127.0.0.1").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One command to take** what is free, one to give it back; and a hand-off is the leave itself, which grants
//!   whoever comes next and tells its client, on a channel that the client listens on anyway.
//! - **The server decides**: who holds, who waits, whose lifetime is over, all by its own clock.
//! - **A token with every grant**, from the server's clock and the newest token it remembers, whichever is later: it
//!   grows over restarts, evictions, FLUSHALL and failovers, as long as that clock is not behind the last grant.
//!
//! A key of the namespace is never without an expiry. An idle name leaves its newest token behind, for an hour.
//!
//! Everything of `tidelock` is exported again here, so this is the one crate to depend on.

mod address;
mod aside;
mod census;
mod check;
#[cfg(feature = "cluster")]
mod cluster;
mod connector;
mod dial;
mod fleet;
mod inspection;
mod keys;
mod link;
mod local;
mod login;
mod lua;
mod news;
mod outbox;
mod pace;
mod pulse;
mod renewing;
mod replicas;
mod reply;
mod script;
mod seen_through;
mod sentinels;
mod server;
mod session;
mod store;
mod strangers;
mod tenure;
mod trouble;

use std::sync::Arc;

pub use login::Login;
#[cfg(feature = "tls")]
pub use redis::{ClientTlsConfig, TlsCertificates};
pub use store::Store;
pub use tidelock::*;

/// Locks in the Redis at `url`, with the default options. Share them in their `Arc`.
///
/// # Errors
/// When that is no URL of a Redis, or what is there cannot serve: [`Store::open`], [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url)?.connect(Options::new()).await
}
