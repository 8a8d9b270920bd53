//! A lock with a number of permits.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::Moment;
use crate::named_line::NamedLine;
use crate::{Error, ErrorKind, Guard, Kind, Line, Name, Result, Weight};

/// A distributed semaphore. Permits have an owner and a lease: those of a client that died come back. A request for
/// many permits is not overtaken by smaller ones.
///
/// The size belongs to the line: it is what the first client in line asked for, or what [`resize`](Semaphore::resize)
/// made it. A client that opened the semaphore with another size uses the line's size, so that rolling out a new size
/// is no outage. It learns that from [`size`](Semaphore::size), and from one warning in its log: at the first grant,
/// `size` or request for too many permits that shows it. A `None` does not show it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock::connect("memory://").await?;
/// let calls = locks.semaphore("calls to the slow service", 3)?;
/// let two = calls.acquire(2).await?;
/// assert!(calls.try_acquire(2).await?.is_none());
/// calls.resize(4).await?;
/// assert!(calls.try_acquire(2).await?.is_some());
/// two.release().await?;
/// locks.close().await?;
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Semaphore: fmt::Debug + Send + Sync + 'static {
    /// The name of the lock.
    fn name(&self) -> &Name;

    /// Its line at the moment, with holders and waiters, as [`Locks::inspect`](crate::Locks::inspect) returns it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_core::Result<()> {
    /// # let locks = tidelock_memory::connect();
    /// let calls = locks.semaphore("calls to the slow service", 3)?;
    /// let two = calls.acquire(2).await?;
    /// let in_use: u32 = calls.line().await?.holders().map(|claim| claim.weight.get()).sum();
    /// assert_eq!(in_use, 2);
    /// # two.release().await?;
    /// # locks.close().await }
    /// ```
    ///
    /// # Errors
    /// Trouble with the store.
    async fn line(&self) -> Result<Line>;

    /// Waits its turn for `permits` permits. They are granted together and given back together.
    ///
    /// # Errors
    /// [`InvalidPermits`](ErrorKind::InvalidPermits) for none, or more than the line can ever give; `KindMismatch` and
    /// `Closed` as for [`Mutex::lock`](crate::Mutex::lock). All other errors are trouble with the store: it is unknown
    /// whether this claim was granted, and it is given back in the background.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn acquire(&self, permits: u32) -> Result<Guard>;

    /// Takes `permits` permits if they are free, otherwise `None`.
    ///
    /// # Errors
    /// As for [`acquire`](Semaphore::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_acquire(&self, permits: u32) -> Result<Option<Guard>>;

    /// Waits its turn for `permits` permits for at most `patience`.
    ///
    /// # Errors
    /// As for [`acquire`](Semaphore::acquire), also if the store did not answer at all within `patience`.
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn acquire_within(&self, permits: u32, patience: Duration) -> Result<Option<Guard>>;

    /// The total number of permits, held or not.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as for [`Mutex::lock`](crate::Mutex::lock). All other errors are trouble with the
    /// store.
    async fn size(&self) -> Result<u32>;

    /// Changes the number of permits, for all claims that are in line or will be. Nothing is taken back from a
    /// holder.
    ///
    /// If several resizes are requested at the same moment, each takes effect, one after the other, and the last one
    /// stays.
    ///
    /// While nobody is in line the store has no size to change. The size is then what the next client in line asks
    /// for, and this handle asks for `permits`.
    ///
    /// After an error for which [`Error::can_retry`](crate::Error::can_retry) is true the outcome is unknown: the
    /// resize may have taken effect, or may do so later. Later can be after another resize too, if the size is then
    /// what it was when this one was requested.
    ///
    /// # Errors
    /// [`InvalidPermits`](ErrorKind::InvalidPermits) for none, or if a waiting claim could then never fit;
    /// [`Conflict`](ErrorKind::Conflict) if other clients resized it again and again for as long as a command may
    /// take.
    async fn resize(&self, permits: u32) -> Result<()>;
}

/// Checks a number of permits.
pub(crate) fn permits(n: u32) -> Result<Weight> {
    let wrong = || format!("the number of permits must be between 1 and {}, not {n}", Weight::MAX);
    Weight::new(n).ok_or_else(|| Error::new(ErrorKind::InvalidPermits, wrong()))
}

#[async_trait]
impl Semaphore for NamedLine {
    fn name(&self) -> &Name {
        &self.name
    }

    async fn line(&self) -> Result<Line> {
        self.inspect().await
    }

    async fn acquire(&self, n: u32) -> Result<Guard> {
        self.wait_in_store(self.wanted(n)?).await
    }

    async fn try_acquire(&self, n: u32) -> Result<Option<Guard>> {
        self.try_now(self.wanted(n)?).await
    }

    async fn acquire_within(&self, n: u32, patience: Duration) -> Result<Option<Guard>> {
        self.wait_in_store_within(self.wanted(n)?, patience).await
    }

    async fn size(&self) -> Result<u32> {
        let size = self.size_now().await.map_err(|error| error.during("see the size of").on(&self.name))?;
        self.compare(size);
        Ok(size.get())
    }

    async fn resize(&self, n: u32) -> Result<()> {
        self.resize_to(n).await.map_err(|error| error.during("resize").on(&self.name))
    }
}

impl NamedLine {
    fn wanted(&self, n: u32) -> Result<Weight> {
        permits(n).map_err(|error| error.during("take permits of").on(&self.name))
    }

    async fn size_now(&self) -> Result<Weight> {
        let line = self.client.line(&self.name).await?;
        match line.kind {
            Some(kind) if kind != Kind::Semaphore => Err(Error::other_kind(kind)),
            _ => Ok(line.capacity.unwrap_or_else(|| self.declared.get())),
        }
    }

    async fn resize_to(&self, n: u32) -> Result<()> {
        let to = permits(n)?;
        let by = self.client.after(self.client.options().command_deadline);
        loop {
            match self.resize_once(to).await {
                // Another client resized it in between, so try again: the last resize to be requested wins.
                Err(error)
                    if error.kind() == ErrorKind::Conflict && self.client.after(Duration::ZERO) < by => {}
                answer => return answer,
            }
        }
    }

    async fn resize_once(&self, to: Weight) -> Result<()> {
        let from = self.size_now().await?;
        let (live, name) = (self.client.live_session(Moment::NEVER).await?, self.name.clone());
        let (session, declared) = (live.session.clone(), self.declared.clone());
        let number = declared.next_resize();
        // It is seen through even if nobody awaits the answer, so that this handle learns of the new size too.
        live.carry_out(async move {
            session.resize(&name, from, to).await?;
            declared.resized(number, to);
            Ok(())
        })
        .await
    }
}
