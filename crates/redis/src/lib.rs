//! Tidelock in Redis: the server keeps the line, each operation is one script, and grants are pushed.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
//! let locks = tidelock_redis::connect("redis://127.0.0.1").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One command takes** a free lock, and one command gives it back. A hand-off is the leave itself: its script
//!   grants the next waiter and tells that waiter's client, on a channel that the client listens on anyway.
//! - **The server decides** by its own clock who holds, who waits, and whose lifetime is over.
//! - **Every grant has a token**, from the server's clock or from the newest token it remembers, whichever is later.
//!   Tokens grow over restarts, evictions, FLUSHALL and failovers, as long as that clock is not behind the last grant.
//!
//! Every key of the namespace has an expiry. An idle name leaves its newest token behind, for an hour.
//!
//! This crate re-exports all of `tidelock-core`, so it is the one crate to depend on.

#[macro_use]
mod seeded;

mod address;
mod calls;
mod check;
#[cfg(feature = "cluster")]
mod cluster;
mod connector;
mod dial;
mod elections;
mod fleet;
mod inspection;
mod keys;
mod link;
mod local;
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
mod server_url;
mod session;
mod store;
mod strangers;
mod tenure;
#[cfg_attr(tidelock_simulation, path = "timer_by_alarms.rs")]
mod timer;
mod together;
mod trouble;

use std::sync::Arc;

#[cfg(feature = "tls")]
pub use redis::{ClientTlsConfig, TlsCertificates};
pub use store::Store;
pub use tidelock_core::backend::Login;
pub use tidelock_core::*;

/// Connects to the Redis at `url` with the default options. Share the result: clone its `Arc`.
///
/// # Errors
/// When `url` is not a Redis URL, or the server there cannot serve: see [`Store::open`] and [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url).map_err(|error| error.during("connect"))?.connect(Options::new()).await
}
