//! Many readers, or one writer.

use std::convert::identity;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::named_line::{Acquiring, NamedLine};
use crate::{Guard, Line, Name, Result, Weight, WriteGuard};

/// A distributed read-write lock. Readers and writers share one line: readers that come later never starve a writer,
/// and readers that stand next to each other enter together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock::connect("memory://").await?;
/// let prices = locks.rwlock("prices")?;
/// let writing = prices.write().await?;
/// let reading = writing.downgrade().await?; // no other writer gets in between
/// let also_reading = prices.read().await?;
/// assert!(prices.try_write().await?.is_none());
/// locks.close().await?;
/// # drop((reading, also_reading)); Ok(()) }
/// ```
#[async_trait]
pub trait RwLock: fmt::Debug + Send + Sync + 'static {
    /// The name of the lock.
    fn name(&self) -> &Name;

    /// Its line at the moment, with readers, writers and waiters, as [`Locks::inspect`](crate::Locks::inspect) returns
    /// it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_core::Result<()> {
    /// # let locks = tidelock_memory::connect();
    /// let prices = locks.rwlock("prices")?;
    /// let reading = prices.read().await?;
    /// assert_eq!(prices.line().await?.holders().count(), 1);
    /// # reading.release().await?;
    /// # locks.close().await }
    /// ```
    ///
    /// # Errors
    /// Trouble with the store.
    async fn line(&self) -> Result<Line>;

    /// Waits its turn to read. Other readers may hold at the same time.
    ///
    /// # Errors
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch) while the name is in use as another kind of lock,
    /// [`Closed`](crate::ErrorKind::Closed) after its `Locks` was closed. All other errors are trouble with the
    /// store: it is unknown whether this claim was granted, and it is given back in the background.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn read(&self) -> Result<Guard>;

    /// Takes the lock for reading if that is possible at once, otherwise `None`.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_read(&self) -> Result<Option<Guard>>;

    /// Waits its turn to read for at most `patience`.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store, for example if it did not
    /// answer at all within `patience`.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn read_within(&self, patience: Duration) -> Result<Option<Guard>>;

    /// Waits its turn to write, alone.
    ///
    /// # Errors
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch) while the name is in use as another kind of lock,
    /// [`Closed`](crate::ErrorKind::Closed) after its `Locks` was closed. All other errors are trouble with the
    /// store: it is unknown whether this claim was granted, and it is given back in the background.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn write(&self) -> Result<WriteGuard>;

    /// Takes the lock for writing if that is possible at once, otherwise `None`.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_write(&self) -> Result<Option<WriteGuard>>;

    /// Waits its turn to write for at most `patience`.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above. All other errors are trouble with the store, for example if it did not
    /// answer at all within `patience`.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn write_within(&self, patience: Duration) -> Result<Option<WriteGuard>>;
}

#[async_trait]
impl RwLock for NamedLine {
    fn name(&self) -> &Name {
        &self.name
    }

    async fn line(&self) -> Result<Line> {
        self.inspect().await
    }

    fn read<'s, 'f>(&'s self) -> Acquiring<'f, Guard>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait(Weight::ONE, identity)
    }

    async fn try_read(&self) -> Result<Option<Guard>> {
        self.try_now(Weight::ONE).await
    }

    fn read_within<'s, 'f>(&'s self, patience: Duration) -> Acquiring<'f, Option<Guard>>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait_within(Weight::ONE, patience, identity)
    }

    fn write<'s, 'f>(&'s self) -> Acquiring<'f, WriteGuard>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait(Weight::MAX, WriteGuard::new)
    }

    async fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(self.try_now(Weight::MAX).await?.map(WriteGuard::new))
    }

    fn write_within<'s, 'f>(&'s self, patience: Duration) -> Acquiring<'f, Option<WriteGuard>>
    where
        's: 'f,
        Self: 'f,
    {
        self.wait_within(Weight::MAX, patience, WriteGuard::new)
    }
}
