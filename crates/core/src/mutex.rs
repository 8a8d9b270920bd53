//! One holder at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::named_line::NamedLine;
use crate::{Clock, Guard, Line, Name, Result, Weight};

/// A distributed mutex: first come, first served, with a fencing token on every grant.
///
/// There is no poisoning: a task that panics gives the lock back, because what it left half done is in the store that
/// the lock protects, where the next holder has to look anyway.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock_memory::connect();
/// let mutex = locks.mutex("stock:42")?;
/// let guard = mutex.lock().await?;
/// assert!(mutex.try_lock().await?.is_none(), "contention is a value, not an error");
/// guard.release().await?;
/// locks.close().await?;
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Mutex: fmt::Debug + Send + Sync + 'static {
    /// The name it locks.
    fn name(&self) -> &Name;

    /// Where it comes among all locks of all stores, for whoever takes several.
    fn place(&self) -> LockPlace<'_>;

    /// The clock that its waits are counted on: its store's.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Its line as it is now: who holds, who waits, as [`Locks::inspect`](crate::Locks::inspect) shows it.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn line(&self) -> Result<Line>;

    /// Waits its turn.
    ///
    /// # Errors
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch) while the name is in use as another kind of lock,
    /// [`Closed`](crate::ErrorKind::Closed) after its `Locks` was closed; else trouble with the store: whether this
    /// claim was granted is then unknown, and it is given back in the background.
    ///
    /// # Cancel safety
    /// Dropping the future at any moment leaves the line: within a second while the process lives, else within a ttl.
    /// Asking again stands in line anew, at the tail.
    async fn lock(&self) -> Result<Guard>;

    /// Held at once, or `None`. It never waits in line.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above; else trouble with the store: whether the lock is free is then unknown.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_lock(&self) -> Result<Option<Guard>>;

    /// Waits its turn for at most `patience`, and leaves the line with `None` when that is over.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above; else trouble with the store, also when it did not answer within `patience`
    /// at all.
    ///
    /// # Cancel safety
    /// As of [`lock`](Mutex::lock).
    async fn lock_within(&self, patience: Duration) -> Result<Option<Guard>>;
}

/// Where a lock comes among all locks of all stores. The order is the same in every process, so that whoever takes
/// several locks takes them in this order. It is an order and no more: two stores may be called the same, and one may be
/// called by two names. Which of two that are called the same comes first is the same within a process, and no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LockPlace<'a> {
    /// The name, first in the order: it is what processes surely spell alike.
    pub name: &'a str,
    /// The store, as the backend calls it.
    pub store: &'a str,
    /// The namespace there.
    pub namespace: &'a str,
    /// Which of the backends of this process that are called the same.
    backend: usize,
}

impl<'a> LockPlace<'a> {
    /// The place of a lock of one's own making.
    #[must_use]
    pub fn new(name: &'a str, store: &'a str, namespace: &'a str) -> Self {
        Self { name, store, namespace, backend: 0 }
    }
}

#[async_trait]
impl Mutex for NamedLine {
    fn name(&self) -> &Name {
        &self.name
    }

    fn place(&self) -> LockPlace<'_> {
        let (store, namespace) = self.client.store();
        LockPlace { name: &self.name, store, namespace, backend: self.client.backend_address() }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.client.clock()
    }

    async fn line(&self) -> Result<Line> {
        self.client.line(&self.name).await.map_err(|error| error.during("inspect").on(&self.name))
    }

    async fn lock(&self) -> Result<Guard> {
        self.wait(Weight::ONE).await
    }

    async fn try_lock(&self) -> Result<Option<Guard>> {
        self.try_now(Weight::ONE).await
    }

    async fn lock_within(&self, patience: Duration) -> Result<Option<Guard>> {
        self.wait_within(Weight::ONE, patience).await
    }
}
