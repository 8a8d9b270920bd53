//! The factory of locks, and the operators' view of a line.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ClaimId, Guards, Line, Mutex, Name, Result, RwLock, Semaphore};

/// One client of a store. It makes locks, and one session keeps all that they hold.
///
/// Share it in its `Arc`, across threads, tasks and runtimes. When the last handle and the last guard of a client are
/// gone, its session is closed in the background. If the process ends first, its locks stay taken until their lease
/// ends. So close the client before the runtime ends: then every lock is free at once and not a ttl later.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// let locks = tidelock::connect("memory://").await?;
/// let guard = locks.mutex("stock:42")?.lock().await?;
/// guard.release().await?;
/// locks.close().await?; // gives back whatever is still held or on its way
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Locks: fmt::Debug + Send + Sync + 'static {
    /// The mutex of this name. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName).
    fn mutex(&self, name: &str) -> Result<Arc<dyn Mutex>>;

    /// The read-write lock of this name. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName).
    fn rwlock(&self, name: &str) -> Result<Arc<dyn RwLock>>;

    /// The semaphore of this name. It has `permits` permits unless it already exists with another size. Nothing is
    /// sent.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName); [`InvalidPermits`](crate::ErrorKind::InvalidPermits) if
    /// `permits` is 0 or more than 2^31 − 1.
    fn semaphore(&self, name: &str, permits: u32) -> Result<Arc<dyn Semaphore>>;

    /// Locks all of these names or none: see [`lock_all`](crate::lock_all()).
    ///
    /// # Errors
    /// The first error of any of them; then no lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future gives back all that was granted, and leaves every line.
    async fn lock_all(&self, names: &[&str]) -> Result<Guards>;

    /// Like [`lock_all`](Locks::lock_all), with one deadline for all. `None` if it passes; then no lock is held.
    ///
    /// # Errors
    /// The first error of any of them; then no lock is held.
    ///
    /// # Cancel safety
    /// Dropping the future gives back all that was granted, and leaves every line.
    async fn lock_all_within(&self, names: &[&str], patience: Duration) -> Result<Option<Guards>>;

    /// The line of a name: its holders and waiters, with their tokens, labels and times in line.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn inspect(&self, name: &str) -> Result<Line>;

    /// The names in use that begin with `prefix`, in order, one page of them. For the next page, pass the last name
    /// of this page as `after`.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>>;

    /// Takes another client's claim out of the line, as an operator's last resort. Returns whether the claim was
    /// there.
    ///
    /// An evicted holder learns of it at its next renewal or sooner. Until then it believes that it still holds the
    /// lock. A resource that checks the fence refuses its writes, because its token is older.
    ///
    /// # Errors
    /// Trouble with the store. The eviction is not repeated in the background: call again.
    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool>;

    /// Another client of the same store with the same options but another ttl. It has its own session and its own
    /// connections, so that neither client can stall the other.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for a ttl out of range.
    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>>;

    /// Checks that the store answers, for readiness checks.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn ping(&self) -> Result<()>;

    /// Takes no more locks, waits until this client's holders have given back theirs, and then [closes](Locks::close).
    /// A request for a lock gets [`Closed`](crate::ErrorKind::Closed) from now on, and so do the requests that are
    /// waiting; their places in line are given up. Everything else (`inspect`, `ping`, renewals, a downgrade) goes on
    /// until the close.
    ///
    /// It waits for as long as a lock is held: [`drain_within`](Locks::drain_within) has a limit.
    ///
    /// A holder that takes another lock gets `Closed` too, and may then give up its work: it has given its lock back,
    /// so the drain counts it as finished. If your work takes a lock while it holds another one, do not drain under
    /// it: stop taking in work, wait until the work is done (an HTTP server's graceful shutdown does both), and then
    /// drain.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
    /// # let locks = tidelock::connect("memory://").await?;
    /// let guard = locks.mutex("stock:42")?.lock().await?;
    /// let worker = tokio::spawn(async move { guard.release().await });
    /// locks.drain().await?; // the worker finishes
    /// assert!(worker.await.expect("no panic")?.is_confirmed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`close`](Locks::close).
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, holders go on and still no new lock is taken. Call it again, or
    /// call close.
    async fn drain(&self) -> Result<()>;

    /// Like [`drain`](Locks::drain), but closes when `longest` is over, although locks are held: their guards are Lost
    /// then. The close itself can take the deadline of one command more. Returns whether all locks were given back
    /// or lost before: `true` does not say that their holders could finish their work, because those that needed
    /// another lock got [`Closed`](crate::ErrorKind::Closed), as [`drain`](Locks::drain) says.
    ///
    /// # Errors
    /// As for [`close`](Locks::close).
    ///
    /// # Cancel safety
    /// As for [`drain`](Locks::drain).
    async fn drain_within(&self, longest: Duration) -> Result<bool>;

    /// Gives back everything that this client holds or waits for. Returns when the store has confirmed it, or does not
    /// but every lease of this client has ended, or after the deadline of one command. Remaining guards are Lost, and
    /// waiters get [`Closed`](crate::ErrorKind::Closed). While a session is still being opened there is nothing to give
    /// back, so it returns at once; if the session opens after all, it is closed in the background.
    /// Clients made by [`with_ttl`](Locks::with_ttl) have to be closed separately.
    ///
    /// # Errors
    /// The message says what the store did not confirm; that ends with its lease. The session and its connections are
    /// kept in that case, so you can call close again, until one call is confirmed or the last handle of this client
    /// is dropped. Nothing is retried in the background.
    async fn close(&self) -> Result<()>;

    /// Like [`close`](Locks::close), with its own deadline, which it keeps whatever the store does, and also in real
    /// time if the store's clock is turned by hand and stands still. Another caller that closes with a longer or a
    /// shorter deadline does not change this one.
    ///
    /// # Errors
    /// The message says what the store did not confirm; that ends with its lease.
    async fn close_within(&self, longest: Duration) -> Result<()>;
}
