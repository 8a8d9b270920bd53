//! A number of permits.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::named_line::NamedLine;
use crate::{Error, ErrorKind, Guard, Kind, Moment, Name, Result, Weight};

/// A distributed semaphore. Permits have an owner and a lease: those of a client that died come back. Whoever waits
/// for many permits is not passed by those who want few.
///
/// Its size is the line's: what the first comer said, or what [`resize`](Semaphore::resize) made it. A client that
/// opened it with another size is served under the line's size, and told so by [`size`](Semaphore::size) and one
/// warning, so that rolling out a new size is no outage.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock_memory::connect();
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
    /// The name it locks.
    fn name(&self) -> &Name;

    /// Waits its turn for `permits` permits. They come and go together.
    ///
    /// # Errors
    /// [`InvalidPermits`](ErrorKind::InvalidPermits) for none, or more than the line can ever give; else trouble with
    /// the store: whether this claim was granted is then unknown, and it is given back in the background.
    ///
    /// # Cancel safety
    /// As of [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn acquire(&self, permits: u32) -> Result<Guard>;

    /// Takes `permits` permits at once, or `None`.
    ///
    /// # Errors
    /// As of [`acquire`](Semaphore::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it may have been granted.
    async fn try_acquire(&self, permits: u32) -> Result<Option<Guard>>;

    /// Waits its turn for `permits` permits for at most `patience`.
    ///
    /// # Errors
    /// As of [`acquire`](Semaphore::acquire), also when the store did not answer within `patience` at all.
    ///
    /// # Cancel safety
    /// As of [`Mutex::lock`](crate::Mutex::lock): dropping the future leaves the line.
    async fn acquire_within(&self, permits: u32, patience: Duration) -> Result<Option<Guard>>;

    /// How many permits there are in all, held or not.
    ///
    /// # Errors
    /// `KindMismatch` and `Closed` as above; else trouble with the store.
    async fn size(&self) -> Result<u32>;

    /// Changes the number of permits, for everyone who stands in line or will. Nothing is taken back from a holder.
    ///
    /// Of several that are asked for at the same moment each takes effect, one after the other, and the last one stays.
    ///
    /// While nobody stands in line there is no size to change in the store: it is then what the next comer says, and
    /// this handle says `permits`.
    ///
    /// After an error of which [`Error::can_retry`](crate::Error::can_retry) says so, its outcome is not known: it may
    /// have taken effect, or do so later. Later means after another resize too, if the size is then what it was when
    /// this one was asked for.
    ///
    /// # Errors
    /// [`InvalidPermits`](ErrorKind::InvalidPermits) for none, or while a claim waits that could then never fit;
    /// [`Conflict`](ErrorKind::Conflict) when others have resized it again and again for as long as a command may take.
    async fn resize(&self, permits: u32) -> Result<()>;
}

/// A number of permits, if it is one.
pub(crate) fn permits(n: u32) -> Result<Weight> {
    let wrong = || format!("a semaphore has, and gives, 1 to {} permits, not {n}", Weight::MAX);
    Weight::new(n).ok_or_else(|| Error::new(ErrorKind::InvalidPermits, wrong()))
}

#[async_trait]
impl Semaphore for NamedLine {
    fn name(&self) -> &Name {
        &self.name
    }

    async fn acquire(&self, n: u32) -> Result<Guard> {
        self.wait(self.wanted(n)?).await
    }

    async fn try_acquire(&self, n: u32) -> Result<Option<Guard>> {
        self.try_now(self.wanted(n)?).await
    }

    async fn acquire_within(&self, n: u32, patience: Duration) -> Result<Option<Guard>> {
        self.wait_within(self.wanted(n)?, patience).await
    }

    async fn size(&self) -> Result<u32> {
        Ok(self.size_now().await.map_err(|error| error.during("see the size of").on(&self.name))?.get())
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
                // Somebody else resized it in between, so it goes on: the last one to ask has the last word.
                Err(error)
                    if error.kind() == ErrorKind::Conflict && self.client.after(Duration::ZERO) < by => {}
                answer => return answer,
            }
        }
    }

    async fn resize_once(&self, to: Weight) -> Result<()> {
        let from = self.size_now().await?;
        let (live, name) = (self.client.live(Moment::NEVER).await?, self.name.clone());
        let (session, declared) = (live.session.clone(), self.declared.clone());
        let number = declared.next_resize();
        // It is seen through although nobody waits for the answer, and then this handle knows of it too.
        live.tell(async move {
            session.resize(&name, from, to).await?;
            declared.resized(number, to);
            Ok(())
        })
        .await
    }
}
