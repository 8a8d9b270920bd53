//! Distributed locks for async Rust: mutex, read-write lock and semaphore, with one API over several stores.
//!
//! This is the core. Depend on `tidelock` instead, with a feature for each backend that you want, or on the crate of
//! one backend, for example `tidelock-memory`: both re-export everything here, and their `connect` gives you a [`Locks`].
//!
//! ```
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> tidelock::Result<()> {
//!     let locks = tidelock::connect("memory://").await?;
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
//! - **First come, first served.** Each name has one line, for readers, writers and permits alike. Nobody overtakes.
//! - **A fencing token on every grant** ([`Token`]). Of two conflicting grants of a name, the later one has the
//!   greater token. A resource that checks it ([`Fence`]) refuses the late write of a holder that has lost the lock.
//! - **Loss is told in time.** A lock in a store is a lease. A guard becomes [`State::Lost`] by this process's own
//!   clock, before the store can have given the lock to another client. You learn of it by [`Guard::state`],
//!   [`Guard::lost`] and [`Guard::run`].
//! - **Contention is a value**, `None`, never an error. An unknown outcome is an error, never `None`.
//! - **Cancel at will.** You can drop any acquiring future at any moment: it leaves nothing behind.
//! - **No poisoning.** A task that panics gives its locks back. Work that it left half done is in the data that the
//!   lock protects, not in the lock, and the next holder has to check that data anyway.
//!
//! # Why close
//!
//! A dropped guard or future is given back in the background, by a thread of Tidelock's own. That thread dies with
//! the process. If the process ends at once, what was still on its way stays locked until its lease ends, a ttl
//! later. So end your program with [`Locks::close`]: everything is free when it returns.
//!
//! # More
//!
//! [`Reentrant`], [`lock_all()`] and [`Striped`] build on any [`Mutex`]. To write another backend, read
//! [`backend`].

#[macro_use]
mod seeded;

mod acquire;
mod alarms;
#[cfg_attr(tidelock_simulation, path = "aside_in_place.rs")]
mod aside;
mod at_once;
pub mod backend;
mod batcher;
#[cfg(not(tidelock_simulation))]
mod boot_clock;
mod certificates;
mod client;
mod clock;
mod cohort;
mod deadline;
mod declared_size;
mod driven;
#[cfg(feature = "serde")]
mod duration;
mod error;
mod escape;
mod factory;
mod fence;
mod guard;
mod guards;
mod joining;
mod keeper;
mod limit;
mod line;
mod live_session;
mod local;
mod locks;
mod login;
#[cfg(all(test, tidelock_loom))]
mod loom;
mod moment;
mod mutex;
mod name;
mod named_line;
mod options;
mod own_line;
mod owned_claim;
mod progress;
mod random;
mod reentrant;
mod refused;
mod registry;
mod released;
mod retries;
mod rwlock;
mod semaphore;
mod server_kind;
mod shared_future;
mod shared_leave;
mod shared_task;
mod shield;
#[cfg(tidelock_simulation)]
pub mod simulation;
mod size_warnings;
mod sleep;
mod span;
mod standing;
mod striped;
mod sync;
mod tied;

#[cfg(tidelock_simulation)]
use simulation as boot_clock;

pub use error::{Error, ErrorKind, Result};
pub use fence::Fence;
pub use guard::{Guard, Lost, State, Until, WriteGuard};
pub use guards::{Guards, lock_all, lock_all_within};
pub use line::{ClaimInfo, Line};
pub use locks::Locks;
pub use mutex::{LockPlace, Mutex};
pub use name::Name;
pub use options::{Options, Replicas};
pub use reentrant::{Owner, Reentrant, ReentrantGuard};
pub use released::Released;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use striped::{StripeGuard, Striped};
pub use tidelock_model::{ClaimId, Kind, NoClaimId, SessionId, Token, Weight};

/// The types that most programs name, by one line: `use tidelock::prelude::*`. A program that only calls methods needs no
/// import: those of `dyn Locks` and of the locks that it makes are always in scope.
///
/// Each backend's crate has the same prelude.
pub mod prelude {
    pub use crate::{
        Error, ErrorKind, Guard, Guards, Locks, Mutex, Options, Released, RwLock, Semaphore, State, Token,
        WriteGuard,
    };
}
