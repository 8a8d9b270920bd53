//! What a user holds: the proof of a grant, and the duty to give it back.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::span::Span;
use crate::stake::Stake;
use crate::standing::{Standing, next_listener};
use crate::{ClaimId, Error, ErrorKind, Grant, Name, Result, Token, Weight};

/// A grant. Dropping it gives it back in the background; [`release`](Guard::release) does so and waits.
///
/// It belongs to whoever has it: it may move between threads and tasks, and be shared in an `Arc`. While it lives its
/// keeper renews the claim, and it tells when that fails: [`state`](Guard::state), [`lost`](Guard::lost).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::State;
/// # let locks = tidelock_memory::connect();
/// let guard = locks.mutex("report")?.lock().await?;
/// assert_eq!(guard.state(), State::Held);
/// let rows = guard.run(async { 42 }).await?; // stops, with an error, when the guard is lost
/// guard.release().await?;
/// locks.close().await?;
/// # assert_eq!(rows, 42); Ok(()) }
/// ```
#[must_use = "the lock is given back as soon as the guard is dropped; bind it to a variable"]
pub struct Guard {
    stake: Stake,
    grant: Grant,
    /// Lasts as long as the hold.
    hold: Span,
}

/// How far a guard can be trusted, the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The last renewal succeeded.
    Held,
    /// The last renewal failed, and the claim's lifetime is not over: it still excludes others.
    Jeopardy,
    /// It may no longer be trusted, and never will be again.
    Lost,
}

impl Guard {
    pub(crate) fn new(stake: Stake, grant: Grant) -> Self {
        Self { stake, grant, hold: Span::none() }
    }

    /// The hold's span begins, behind that of its acquire and not inside it: a child would keep that one open, and its
    /// user's own, for as long as the lock is held.
    pub(crate) fn begin_span(&mut self, acquire: &Span) {
        self.hold = Span::debug(
            || tracing::debug_span!(parent: None, "hold", lock.name = %self.name(), token = self.token().get()),
        );
        self.hold.follows_from(acquire);
    }

    /// The fencing token: show it to the resource with every write, see [`Fence`](crate::Fence).
    #[must_use]
    pub fn token(&self) -> Token {
        self.grant.token
    }

    /// The name that is locked.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.stake.standing.claim.name
    }

    /// The claim it holds: what operators see in [`Locks::inspect`](crate::Locks::inspect), and may evict.
    #[must_use]
    pub fn claim(&self) -> ClaimId {
        self.stake.standing.claim.id
    }

    /// For how long it can still be trusted if no renewal succeeds; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.stake.loss() {
            Some(_) => Duration::ZERO,
            None => self.stake.standing.until().since(self.stake.live.clock.now()),
        }
    }

    /// Whether it can be trusted now, by this process's own clock; nothing is sent.
    #[must_use]
    pub fn state(&self) -> State {
        match self.stake.loss() {
            Some(_) => State::Lost,
            None if self.stake.standing.is_in_jeopardy() => State::Jeopardy,
            None => State::Held,
        }
    }

    /// Ready when the guard is lost, or given back. It may outlive the guard, and is not what keeps it.
    #[must_use = "futures do nothing unless polled"]
    pub fn lost(&self) -> Lost {
        Lost { standing: self.stake.standing.clone(), listener: next_listener() }
    }

    /// Runs `work` until it is done or the guard is lost; then `work` is dropped where it stands.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when the guard was lost first.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`, and nothing else: the guard is still held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        let (mut work, mut lost) = (pin!(work), pin!(self.lost()));
        poll_fn(|cx| {
            // Loss first: what could be done by now must not be begun under a lock that is gone.
            let _ = lost.as_mut().poll(cx); // registers, so that a loss after the look below is not missed
            if let Some(loss) = self.stake.loss() {
                let message = format!("the lock was lost: {}", loss.reason());
                return Poll::Ready(Err(Error::new(ErrorKind::Lost, message)
                    .during("work under")
                    .on(self.name())));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Gives it back, and waits until the store has confirmed it: one round trip.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when it was lost before: something else may have held the lock meanwhile. After any
    /// other error the keeper goes on giving it back.
    ///
    /// # Cancel safety
    /// It is given back all the same, also when the future is polled once and then neither polled nor dropped.
    pub async fn release(self) -> Result<()> {
        self.stake.release().await.map_err(|error| error.during("release").on(self.name()))
    }

    pub(crate) fn capacity(&self) -> Weight {
        self.grant.capacity
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, token) = (self.name(), self.token());
        write!(f, "Guard({name:?}, token {token}, {:?}, {:?} remaining)", self.state(), self.remaining())
    }
}

/// A guard of a writer, which may become a reader's.
#[must_use = "the lock is given back as soon as the guard is dropped; bind it to a variable"]
#[derive(Debug)]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self(guard)
    }

    /// Becomes a reader's: it keeps its place and its token, lets waiting readers in at once, and lets no other
    /// writer in between.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when it was lost before. After any other error the lock is given back.
    ///
    /// # Cancel safety
    /// Dropping the future gives the lock back.
    pub async fn downgrade(self) -> Result<Guard> {
        let guard = self.0;
        if let Some(loss) = guard.stake.loss() {
            let lost = Error::new(ErrorKind::Lost, format!("the lock was lost before: {}", loss.reason()));
            return Err(lost.during("downgrade").on(guard.name()));
        }
        let claim = guard.stake.standing.claim.clone();
        let session = guard.stake.live.session.clone();
        let lightened = guard.stake.live.tell(async move { session.lighten(&claim, Weight::ONE).await });
        let lost = |error: Error| match error.kind() {
            // The store has nothing to lighten: the claim went in between.
            ErrorKind::Conflict => Error::new(ErrorKind::Lost, "the lock was lost before").because(error),
            _ => error,
        };
        lightened.await.map_err(|error| lost(error).during("downgrade").on(guard.name()))?;
        Ok(guard)
    }

    /// The guard as any other, without the way to downgrade it.
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// See [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// It is given back all the same.
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }
}

impl std::ops::Deref for WriteGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// The future of [`Guard::lost`].
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    standing: Arc<Standing>,
    listener: u64,
}

impl Future for Lost {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.standing.poll_lost(self.listener, cx).map(drop)
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.standing.forget(self.listener);
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lost({:?})", self.standing)
    }
}
