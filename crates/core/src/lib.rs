//! Distributed locks for async Rust: mutex, read-write lock and semaphore, one API over one store or another.
//!
//! This is the core. Depend on the crate of the backend you like, `tidelock-memory` for instance: it re-exports
//! everything here, and its `connect` gives you a [`Locks`].
//!
//! ```
//! use tidelock_memory::prelude::*;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> tidelock_memory::Result<()> {
//!     let locks = tidelock_memory::connect();
//!     let mutex = locks.mutex("stock:42")?;
//!     let guard = mutex.lock().await?; // waits its turn
//!     println!("held under token {}", guard.token());
//!     guard.release().await?; // or just drop it
//!     locks.close().await // gives back what is still on its way
//! }
//! ```
//!
//! # What is promised
//!
//! - **First come, first served.** Each name has one line, for readers and writers and permits alike. Nobody passes.
//! - **A fencing token on every grant** ([`Token`]). Of two conflicting grants of a name the later has the greater
//!   token; a resource that checks it ([`Fence`]) refuses the late write of a holder that has lost the lock.
//! - **Loss is told in time.** A lock in a store is a lease. A guard is [`State::Lost`] by this process's own clock
//!   before the store can have given its place away, and says so: [`Guard::state`], [`Guard::lost`], [`Guard::run`].
//! - **Contention is a value**, `None`, never an error; and an outcome that is not known is an error, never `None`.
//! - **Cancel at will.** Dropping any acquiring future at any moment leaves nothing behind.
//! - **No poisoning.** A task that panics gives its locks back. What it left half done is in the store that the lock
//!   protects, not in the lock: whoever comes next has to look there anyway.
//!
//! # Why close
//!
//! Whatever is dropped is given back in the background, by a thread of Tidelock's own. A process that ends at once
//! takes that thread along, and what was still on its way is then freed by its lease, a ttl later. So programs end
//! with [`Locks::close`], and everything is free when it returns.
//!
//! # More
//!
//! [`Reentrant`], [`lock_all()`] and [`Striped`] build on any [`Mutex`]. [`Backend`] and [`Session`] are what a store
//! has to do, for whoever writes another backend.

mod acquire;
mod alarm;
mod backend;
mod client;
mod clock;
mod deadline;
mod departure;
mod error;
mod escape;
mod factory;
mod fence;
mod guard;
mod guards;
mod joint;
mod keeper;
mod lane;
mod line;
mod live;
mod locks;
#[cfg(all(test, tidelock_loom))]
mod loom;
mod mutex;
mod name;
mod named_line;
mod options;
mod own_line;
mod pledge;
mod reentrant;
mod refused;
mod registry;
mod rwlock;
mod semaphore;
mod shield;
mod span;
mod stake;
mod standing;
mod stranger;
mod striped;
mod sync;
mod word;

pub use alarm::{Alarms, Sleep};
pub use backend::{Backend, Claim, Grant, Place, Renewal, Reply, Session, Shard, Sight, Signals};
pub use clock::{Clock, Moment, boot_clock};
pub use error::{Error, ErrorKind, Result};
pub use escape::{escape, unescape};
pub use factory::{attach, connect};
pub use fence::Fence;
pub use guard::{Guard, Lost, State, WriteGuard};
pub use guards::{Guards, lock_all, lock_all_within};
pub use lane::{Batch, Errand, Lane};
pub use line::{Line, Stander};
pub use locks::Locks;
pub use mutex::{LockPlace, Mutex};
pub use name::Name;
pub use options::{Options, Replicas};
pub use own_line::{Aim, Armed, OwnLine};
pub use reentrant::{Owner, Reentrant, ReentrantGuard};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use shield::unharmed;
pub use stranger::stranger;
pub use striped::{StripeGuard, Striped};
pub use tidelock_model::{ClaimId, Kind, Leave, Left, Patience, Refusal, SessionId, Token, Watch, Weight};

/// What most programs need: `use tidelock_memory::prelude::*`, or of any other backend.
pub mod prelude {
    pub use crate::{Guard, Guards, Locks, Mutex, RwLock, Semaphore, State, Token, WriteGuard};
}
