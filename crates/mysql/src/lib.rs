//! Tidelock in MySQL and MariaDB: the tables keep the line, and each operation is one transaction in one round trip.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_mysql::Result<()> {
//! let locks = tidelock_mysql::connect("mysql://app@127.0.0.1/shop").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One round trip takes** a free lock, and one gives it back. Requests that are made at the same time share a
//!   transaction, and so one write to the server's disk.
//! - **The server decides** by its own clock who holds, who waits, and whose client is dead.
//! - **Waiting holds no connection and no row lock.** One statement of each client sleeps in the server until one of its
//!   claims is granted.
//! - **Every grant has a token**, from the server's clock or from the newest token of the name, whichever is later.
//!
//! This crate re-exports all of `tidelock-core`, so it is the one crate to depend on.

mod address;
mod answers;
mod check;
mod flight;
mod gathering;
mod inside;
mod inspection;
mod lane;
mod link;
mod looking;
mod open_session;
mod optimistic;
mod own_claims;
mod packet;
mod renewing;
mod request;
mod section;
mod session;
mod sql;
mod store;
mod strangers;
mod sweep;
mod sweeping;
mod switchover;
mod trouble;
#[cfg(test)]
mod turned;
mod untidy;
mod waiters;
mod watching;
mod which_server;

use std::sync::Arc;

pub use inside::{TransactionError, Work, in_transaction, lock_all_in, lock_in, lock_in_within, try_lock_in};
pub use optimistic::{OptimisticError, optimistic};
pub use sql::MIGRATION;
/// The library of the pools and transactions that this crate takes.
pub use sqlx;
pub use store::Store;
pub use tidelock_core::backend::Login;
#[cfg(feature = "tls")]
pub use tidelock_core::backend::{ClientTlsConfig, TlsCertificates};
pub use tidelock_core::*;

/// Connects to the MySQL or MariaDB at `url` with the default options. Share the result: clone its `Arc`.
///
/// # Errors
/// When `url` is not the URL of a database, or the server there cannot serve: see [`Store::open`] and
/// [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url).map_err(|error| error.during("connect"))?.connect(Options::new()).await
}
