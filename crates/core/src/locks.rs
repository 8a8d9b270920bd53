//! The factory of locks, and what operators do with a line.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ClaimId, Guards, Line, Mutex, Name, Result, RwLock, Semaphore};

/// One client of a store: it makes locks, and keeps what is held through one session.
///
/// Share it in its `Arc`, across threads, tasks and runtimes. When the last handle and the last guard of a client are
/// gone, its session is closed in the background; a process that ends first leaves that to the lease. So close it
/// before the runtime ends: then every lock is free at once, and not a ttl later.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// let locks = tidelock_memory::connect();
/// let guard = locks.mutex("stock:42")?.lock().await?;
/// guard.release().await?;
/// locks.close().await?; // gives back whatever is still held or on its way
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Locks: fmt::Debug + Send + Sync + 'static {
    /// The mutex of that name. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName).
    fn mutex(&self, name: &str) -> Result<Arc<dyn Mutex>>;

    /// The read-write lock of that name. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName).
    fn rwlock(&self, name: &str) -> Result<Arc<dyn RwLock>>;

    /// The semaphore of that name, of `permits` permits while nobody has made it another size. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName); [`InvalidPermits`](crate::ErrorKind::InvalidPermits) for none
    /// or more than 2^31 − 1.
    fn semaphore(&self, name: &str, permits: u32) -> Result<Arc<dyn Semaphore>>;

    /// Locks all of these names, or none: see [`lock_all`](crate::lock_all()).
    ///
    /// # Errors
    /// The first error of any of them; then none is held.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was granted, and leaves every line.
    async fn lock_all(&self, names: &[&str]) -> Result<Guards>;

    /// The same, with one deadline for all: `None` when it passes, and then none is held.
    ///
    /// # Errors
    /// The first error of any of them; then none is held.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was granted, and leaves every line.
    async fn lock_all_within(&self, names: &[&str], patience: Duration) -> Result<Option<Guards>>;

    /// The line of a name: who holds, who waits, with tokens, labels and since when.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn inspect(&self, name: &str) -> Result<Line>;

    /// The names in use that begin with `prefix`, in order, one page of them; the next page comes after its last name.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>>;

    /// Takes somebody's claim out of the line, as an operator's last resort. Says whether it was there.
    ///
    /// A holder learns of it at its next renewal or sooner, and until then still believes that it holds: what it
    /// writes in between is refused by its older token, where the resource checks the fence.
    ///
    /// # Errors
    /// Trouble with the store; the eviction is then repeated in nobody's name: ask again.
    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool>;

    /// A sibling with another ttl: one more client of the same store, with the same options, and with a session and
    /// connections of its own. Nothing is shared, so that neither can stall the other.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for a ttl out of range.
    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>>;

    /// Asks the store for a sign of life, for readiness checks.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn ping(&self) -> Result<()>;

    /// Gives back everything that this client holds or waits for, and returns when the store has confirmed it, or
    /// after the deadline of one command. Guards that are left are Lost; whoever waits gets
    /// [`Closed`](crate::ErrorKind::Closed). Siblings made by [`with_ttl`](Locks::with_ttl) are closed by themselves.
    ///
    /// # Errors
    /// Says what the store did not confirm: its lease will end that. The session and its connections are kept then, so that
    /// the close can be asked for again, until one is confirmed or the last handle of this client is dropped. Nothing is
    /// tried again by itself.
    async fn close(&self) -> Result<()>;

    /// The same, with a deadline of its own, which it keeps whatever the store does: also while a session is being opened,
    /// which is then given up, and behind somebody else who closes with more patience, or with less.
    ///
    /// # Errors
    /// Says what the store did not confirm: its lease will end that.
    async fn close_within(&self, longest: Duration) -> Result<()>;
}
