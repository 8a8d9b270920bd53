//! Distributed locks for async Rust: mutex, read-write lock and semaphore, one API over the store you have.
//!
//! ```
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> tidelock::Result<()> {
//!     let locks = tidelock::connect("memory://").await?; // or redis://…, mysql://…, zookeeper://…, etcd://…
//!     let guard = locks.mutex("stock:42")?.lock().await?; // waits its turn
//!     println!("held under token {}", guard.token());
//!     guard.release().await?; // or just drop it
//!     locks.close().await // gives back what is still on its way
//! }
//! ```
//!
//! No import is needed to call methods; the [`prelude`] has the types that programs name.
//!
//! # Backends
//!
//! Each backend is a feature of this crate. [`connect`] chooses by the URL, so a program can take its store from its
//! configuration. So does [`attach_with`], for a program that has to start while its store is down.
//!
//! | URL | feature | crate |
//! |---|---|---|
//! | `memory://` | `memory` (on by default) | `tidelock-memory` |
//! | `mysql://`, `mariadb://` | `mysql`, with TLS `mysql-tls` | `tidelock-mysql` |
//! | `redis://`, `redis+unix://`, `redis-sentinel://` | `redis` | `tidelock-redis` |
//! | `redis-cluster://` | `redis-cluster` | `tidelock-redis` |
//! | `rediss://`, `rediss-sentinel://`, `rediss-cluster://` | `redis-tls` (and `redis-cluster`) | `tidelock-redis` |
//! | `zookeeper://` | `zookeeper` | `tidelock-zookeeper` |
//! | `zookeeper+tls://` | `zookeeper-tls` | `tidelock-zookeeper` |
//! | `etcd://` | `etcd` | `tidelock-etcd` |
//! | `etcds://` | `etcd-tls` | `tidelock-etcd` |
//!
//! What only one store has (certificates, credentials that change, a test's clock) is in that backend's own crate, which
//! is re-exported here as a module of its name. A program that uses one store may also depend on that crate alone: it
//! re-exports everything else. A library that is given its locks depends on this crate with `default-features = false`.
//!
//! # What is promised
//!
//! - **First come, first served.** Each name has one line, for readers, writers and permits alike. Nobody overtakes.
//! - **A fencing token on every grant** ([`Token`]). Of two conflicting grants of a name the later has the greater
//!   token; a resource that checks it ([`Fence`]) refuses the late write of a holder that has lost the lock.
//! - **Loss is told in time.** A lock in a store is a lease. A guard is [`State::Lost`] by this process's own clock
//!   before the store can have given its place away, and says so: [`Guard::state`], [`Guard::lost`], [`Guard::run`].
//! - **Contention is a value**, `None`, never an error; and an outcome that is not known is an error, never `None`.
//! - **Cancel at will.** Dropping any acquiring future at any moment leaves nothing behind.

mod connect;
mod scheme;

pub use connect::{attach_with, connect, connect_with};
pub use tidelock_core::*;

#[cfg(feature = "etcd")]
pub use tidelock_etcd as etcd;
#[cfg(feature = "memory")]
pub use tidelock_memory as memory;
#[cfg(feature = "mysql")]
pub use tidelock_mysql as mysql;
#[cfg(feature = "redis")]
pub use tidelock_redis as redis;
#[cfg(feature = "zookeeper")]
pub use tidelock_zookeeper as zookeeper;
