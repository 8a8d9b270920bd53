//! A lock with one holder at a time.

use std::convert::identity;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::Clock;
use crate::named_line::{Acquiring, NamedLine};
use crate::{Guard, Line, Name, Result, Weight};

/// A distributed mutex: first come, first served, with a fencing token on every grant.
///
/// There is no poisoning. A task that panics gives the lock back: work that it left half done is in the data that the
/// lock protects, and the next holder has to check that data anyway.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock::connect("memory://").await?;
/// let mutex = locks.mutex("stock:42")?;
/// let guard = mutex.lock().await?;
/// assert!(mutex.try_lock().await?.is_none(), "contention is a value, not an error");
/// guard.release().await?;
/// locks.close().await?;
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Mutex: fmt::Debug + Send + Sync + 'static {
    /// The name of the lock.
    fn name(&self) -> &Name;

    /// Its place in the one order of all locks of all stores, for callers that take several.
    fn place(&self) -> LockPlace<'_>;

    /// The clock that times its waits: its store's clock.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Its line at the moment, with holders and waiters, as [`Locks::inspect`](crate::Locks::inspect) returns it.
    ///
    /// # Errors
    /// Trouble with the store.
    async fn line(&self) -> Result<Line>;

    /// Waits its turn.
    ///
    /// # Errors
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch) while the name is in use as another kind of lock,
    /// [`Closed`](crate::ErrorKind::Closed) after its `Locks` was closed. All other errors are trouble with the
    /// store: it is unknown whether this claim was granted, and it is given back in the background.
    ///
    /// # Cancel safety
    /// You can drop the future at any moment. Its claim then leaves the line: within a second while the process
    /// lives, otherwise within a ttl. A new call joins the line again, at the tail.
    async fn lock(&self) -> Result<Guard>;

    /// Takes the lock if it is free, otherwise `None`. It never waits in line.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store: it is unknown whether the
    /// lock is free.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_lock(&self) -> Result<Option<Guard>>;

    /// Waits its turn for at most `patience`. After that it leaves the line and returns `None`.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store, for example if it did not
    /// answer at all within `patience`.
    ///
    /// # Cancel safety
    /// As for [`lock`](Mutex::lock).
    async fn lock_within(&self, patience: Duration) -> Result<Option<Guard>>;
}

/// The place of a lock in the one order of all locks of all stores. The order is the same in every process, so
/// callers that take several locks take them in this order. It does not decide whether two locks are the same: two
/// stores may have the same name, and one store may have two names. The order of two stores with the same name is the
/// same within one process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LockPlace<'a> {
    /// The name of the lock. It comes first in the order, because all processes surely spell it alike.
    pub name: &'a str,
    /// The name of the store, as the backend gives it.
    pub store: &'a str,
    /// The namespace in that store.
    pub namespace: &'a str,
    /// Tells apart the backends of this process whose stores have the same name.
    backend: usize,
}

impl<'a> LockPlace<'a> {
    /// The place of a lock that you implement yourself.
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
        self.inspect().await
    }

    fn lock<'s, 'f>(&'s self) -> Acquiring<'f, Guard>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait(Weight::ONE, identity)
    }

    async fn try_lock(&self) -> Result<Option<Guard>> {
        self.try_now(Weight::ONE).await
    }

    fn lock_within<'s, 'f>(&'s self, patience: Duration) -> Acquiring<'f, Option<Guard>>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait_within(Weight::ONE, patience, identity)
    }
}
