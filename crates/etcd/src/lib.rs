//! Tidelock on etcd: a line is the keys under one prefix, in the order in which they were made, and a client watches each
//! line in which it waits, all on one stream.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_etcd::Result<()> {
//! let locks = tidelock_etcd::connect("etcd://127.0.0.1").await?;
//! let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//! println!("the fence is {}", guard.token());
//! guard.release().await?; // or just drop it
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! - **One round trip to take** a free lock, one to give it back. A hand-off is one event, and at most one read.
//! - **One lease for everything** that a client holds and waits for. When the lease ends, all of it ends.
//! - **A token with every grant**: the revision that created its key. [`Store::fence`] puts it into a transaction of your
//!   own.
//!
//! Unused names leave nothing but revisions, which the operator compacts.
//!
//! This crate re-exports all of `tidelock-core`, so it is the only one to depend on.

mod address;
mod asked;
mod beat;
mod busy;
mod changing;
mod check;
mod dial;
mod ending;
mod fence;
mod gathering;
mod inspection;
mod joining;
mod keys;
mod lane;
mod lease;
mod leaving;
mod line_view;
mod link;
mod login;
mod looking;
mod looks;
mod open_session;
mod own_claims;
mod renewing;
mod request;
mod resized;
mod session;
mod settling;
mod shown;
mod slot_in_use;
mod store;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod trouble;
mod void;
mod watching;

use std::sync::Arc;

/// The client library, for a transaction with a [fence](Store::fence) in it.
pub use etcd_client;
pub use store::Store;
pub use tidelock_core::backend::Login;
#[cfg(feature = "tls")]
pub use tidelock_core::backend::{ClientTlsConfig, TlsCertificates};
pub use tidelock_core::*;

/// Locks in the etcd at `url`, with the default options. Share them in their `Arc`.
///
/// # Errors
/// When the URL is not one of an etcd, or the cluster there cannot be used: see [`Store::open`] and [`Store::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    Store::open(url).map_err(|error| error.during("connect"))?.connect(Options::new()).await
}
