//! Distributed locks for async Rust: mutex, read-write lock and semaphore over one store or another, with one API.
//!
//! (Documentation follows.)

mod alarm;
mod backend;
mod client;
mod clock;
mod deadline;
mod error;
mod fence;
mod guard;
mod guards;
mod keeper;
mod line;
mod live;
mod locks;
#[cfg(all(test, tidelock_loom))]
mod loom;
mod mutex;
mod name;
mod named_line;
mod options;
mod reentrant;
mod registry;
mod rwlock;
mod semaphore;
mod stake;
mod standing;
mod striped;
mod sync;

pub use alarm::{Alarms, Sleep};
pub use backend::{Backend, Claim, Grant, Place, Renewal, Reply, Session, Shard, Sight, Signals};
pub use client::{attach, connect};
pub use clock::{Clock, Moment, boot_clock};
pub use error::{Error, ErrorKind, Result};
pub use fence::Fence;
pub use guard::{Guard, Lost, State, WriteGuard};
pub use guards::{Guards, lock_all, lock_all_within};
pub use line::{Line, Stander};
pub use locks::Locks;
pub use mutex::{LockPlace, Mutex};
pub use name::Name;
pub use options::Options;
pub use reentrant::{Owner, Reentrant, ReentrantGuard};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use striped::{StripeGuard, Striped};
pub use tidelock_model::{ClaimId, Kind, Leave, Left, Patience, SessionId, Token, Weight};

/// What most programs need: `use tidelock_memory::prelude::*`, or of any other backend.
pub mod prelude {
    pub use crate::{Guard, Guards, Locks, Mutex, RwLock, Semaphore, State, Token, WriteGuard};
}
