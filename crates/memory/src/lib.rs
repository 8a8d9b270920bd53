//! Tidelock in the process's own memory: for tests, demos, and everything that fits in one process.
//!
//! [`connect`] returns locks on a store of their own. They keep every promise that the other backends keep, in the
//! same order and with the same tokens, and cost a few hundred nanoseconds.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
//! let locks = tidelock_memory::connect();
//! let held = locks.mutex("stock:42")?.lock().await?;
//! println!("the fence is {}", held.token());
//! held.release().await?;
//! locks.close().await?;
//! # Ok(()) }
//! ```
//!
//! # Tests of your own
//!
//! A [`Store`] can have several clients, as if each were a process. A [`Clock`] that you move makes a lease end
//! without a wait. [`Faults`] make the store fail in the ways that servers do.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
//! use std::time::Duration;
//! use tidelock_memory::{Clock, Options, State, Store};
//!
//! let clock = Clock::manual();
//! let store = Store::with_clock(&clock);
//! let worker = store.connect(Options::new().label("worker")).await?;
//! let held = worker.mutex("nightly job")?.lock().await?;
//!
//! // A worker that is awake renews its session, however long the job takes.
//! clock.pass(Duration::from_secs(60 * 60)).await;
//! assert_eq!(held.state(), State::Held);
//!
//! // One that slept through its ttl has lost its lock, and another client can take it.
//! clock.advance(Duration::from_secs(60));
//! assert_eq!(held.state(), State::Lost);
//! let other = store.connect(Options::new()).await?;
//! assert!(other.mutex("nightly job")?.try_lock().await?.is_some());
//! # other.close().await?;
//! # Ok(()) }
//! ```
//!
//! This crate re-exports all of `tidelock-core`, so it is the only one to depend on.

#[macro_use]
mod seeded;

mod clock;
mod faults;
mod lease;
mod line;
mod mishap;
mod named;
mod pending_signals;
mod session;
mod slab;
mod small_map;
mod state;
mod store;
mod sync;
mod table;

#[cfg(all(test, tidelock_loom))]
mod loom;

use std::sync::Arc;

pub use clock::Clock;
pub use faults::Faults;
pub use store::Store;
pub use tidelock_core::*;

/// Locks on a new store of their own, with the default options. Share them by cloning the `Arc`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
/// let locks = tidelock_memory::connect();
/// let seats = locks.semaphore("seats", 3)?;
/// let two = seats.acquire(2).await?;
/// assert!(seats.try_acquire(2).await?.is_none());
/// drop(two);
/// locks.close().await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn connect() -> Arc<dyn Locks> {
    Store::new().attach(Options::new()).expect("the default options are in their ranges")
}
