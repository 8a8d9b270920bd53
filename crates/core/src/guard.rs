//! The guard: the proof of a grant, and the duty to give it back.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::field::Empty;

use crate::backend::{Clock, Grant};
use crate::cohort::Baton;
use crate::live_session::LiveSession;
use crate::owned_claim::{self, OwnedClaim};
use crate::registry::{Entry, Loss, next_listener};
use crate::span::Span;
use crate::{ClaimId, Error, ErrorKind, Name, Released, Result, Token, Weight};

/// A lock that is held. Dropping it gives the lock back in the background; [`release`](Guard::release) does the same
/// and waits for it.
///
/// It may move between threads and tasks, and be shared in an `Arc`. While it lives, the keeper renews its claim.
/// [`state`](Guard::state) and [`lost`](Guard::lost) tell you if that fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::State;
/// # let locks = tidelock::connect("memory://").await?;
/// let guard = locks.mutex("report")?.lock().await?;
/// assert_eq!(guard.state(), State::Held);
/// let rows = guard.run(async { 42 }).await?; // stops, with an error, when the guard is lost
/// guard.release().await?;
/// locks.close().await?;
/// # assert_eq!(rows, 42); Ok(()) }
/// ```
#[must_use = "the lock is given back as soon as the guard is dropped; bind it to a variable"]
pub struct Guard {
    owned: Owned,
    grant: Grant,
    /// The span of the hold.
    hold: Span,
}

/// The claim of a guard.
enum Owned {
    Alone(OwnedClaim),
    /// One that others of this client may hold before and after.
    Passed(Baton),
}

impl Deref for Owned {
    type Target = OwnedClaim;

    fn deref(&self) -> &OwnedClaim {
        match self {
            Self::Alone(owned) => owned,
            Self::Passed(baton) => baton,
        }
    }
}

impl Owned {
    /// How often the hold was passed on before.
    const fn pass(&self) -> u32 {
        match self {
            Self::Alone(_) => 0,
            Self::Passed(baton) => baton.pass(),
        }
    }

    /// A writer is about to become a reader.
    fn writes_no_more(&mut self) {
        if let Self::Passed(baton) = self {
            baton.writes_no_more();
        }
    }

    /// A writer has become a reader.
    fn now_reads(&mut self) {
        if let Self::Passed(baton) = self {
            baton.now_reads();
        }
    }

    /// No other task of this client gets the hold any more.
    fn ends_its_turn(&mut self) {
        if let Self::Passed(baton) = self {
            baton.ends_its_turn();
        }
    }

    /// Gives the hold to another task of this client, if one waits and may have it.
    fn pass_on(&mut self) -> bool {
        match self {
            Self::Alone(_) => false,
            Self::Passed(baton) => baton.pass_on(),
        }
    }
}

/// How far a guard can be trusted, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The last renewal succeeded.
    Held,
    /// The last renewal failed, but the claim's lease has not ended: it still excludes others.
    Jeopardy,
    /// The guard must not be trusted any more. This state is final.
    Lost,
}

impl Guard {
    pub(crate) fn new(owned: OwnedClaim, grant: Grant) -> Self {
        Self { owned: Owned::Alone(owned), grant, hold: Span::none() }
    }

    /// The guard of a hold that may be passed on.
    pub(crate) fn passed(baton: Baton) -> Self {
        Self { grant: baton.grant, owned: Owned::Passed(baton), hold: Span::none() }
    }

    /// Begins the span of the hold. It follows from the span of the acquire and is not its child: a child would keep
    /// that span, and the user's own, open for as long as the lock is held.
    pub(crate) fn begin_span(&mut self, acquire: &Span) {
        self.hold = Span::debug(
            || tracing::debug_span!(parent: None, "hold", lock.name = %self.name(), token = self.token().get(), loss = Empty),
        );
        self.hold.follows_from(acquire);
    }

    /// The fencing token: show it to the resource with every write, see [`Fence`](crate::Fence).
    #[must_use]
    pub fn token(&self) -> Token {
        let token = self.grant.token;
        let before = || Token::from_order(token.get() >> 5 & !1);
        if seeded!("a_token_is_used_again") { before().unwrap_or(token) } else { token }
    }

    /// The name that is locked.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.owned.entry.claim.name
    }

    /// The claim of this guard. Operators see it in [`Locks::inspect`](crate::Locks::inspect), and may evict it.
    #[must_use]
    pub fn claim(&self) -> ClaimId {
        self.owned.entry.claim.id
    }

    /// How long the guard can still be trusted if no renewal succeeds. Zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = self.owned.live.clock.now();
        match self.owned.loss_at(now) {
            Some(_) => Duration::ZERO,
            None => self.owned.entry.until().since(now),
        }
    }

    /// Whether the guard can be trusted now, by this process's own clock. Nothing is sent.
    #[must_use]
    pub fn state(&self) -> State {
        match self.owned.loss() {
            Some(_) => State::Lost,
            None if self.owned.entry.is_in_jeopardy() => State::Jeopardy,
            None => State::Held,
        }
    }

    /// A future that is ready when the guard is lost or given back. It may outlive the guard, and does not keep the
    /// lock.
    #[must_use = "futures do nothing unless polled"]
    pub fn lost(&self) -> Lost {
        Lost { entry: self.owned.entry.clone(), pass: self.owned.pass(), listener: next_listener() }
    }

    /// A future that is ready when the guard is in [`Jeopardy`](State::Jeopardy), or lost or given back; its output is
    /// that state. Stop beginning new work then: if no renewal succeeds until the lease has nearly ended, the guard is
    /// lost. [`held`](Guard::held) tells when to go on. It may outlive the guard, and does not keep the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
    /// use tidelock::{Guard, State};
    ///
    /// async fn work_through(items: Vec<u32>, guard: &Guard) -> tidelock::Result<()> {
    ///     for item in items {
    ///         if guard.held().await == State::Lost { // waits while the guard is in jeopardy
    ///             break;
    ///         }
    ///         guard.run(work(item)).await?; // an item that has begun goes on unless the guard is lost
    ///     }
    ///     Ok(())
    /// }
    /// # async fn work(_: u32) {}
    /// # let locks = tidelock::connect("memory://").await?;
    /// # let guard = locks.mutex("items")?.lock().await?;
    /// # work_through(vec![1, 2, 3], &guard).await?;
    ///
    /// tokio::select! {
    ///     state = guard.jeopardy() => println!("it is {state:?}: take no more orders"),
    ///     () = take_orders() => {}
    /// }
    /// # async fn take_orders() {}
    /// # locks.close().await }
    /// ```
    pub fn jeopardy(&self) -> Until {
        self.until(State::Jeopardy)
    }

    /// A future that is ready when the guard is [`Held`](State::Held), which it may be at once, or lost or given back;
    /// its output is that state. It waits only while the guard is in jeopardy. It may outlive the guard, and does not
    /// keep the lock.
    pub fn held(&self) -> Until {
        self.until(State::Held)
    }

    fn until(&self, state: State) -> Until {
        let (entry, live) = (self.owned.entry.clone(), Arc::downgrade(&self.owned.live));
        let (clock, pass) = (self.owned.live.clock.clone(), self.owned.pass());
        Until { entry, live, clock, state, pass, listener: next_listener() }
    }

    /// Runs `work` until it is done or the guard is lost. When the guard is lost, `work` is dropped where it is.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when the guard was lost first.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work` and nothing else: the guard still holds the lock.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        let (mut work, mut lost) = (pin!(work), pin!(self.lost()));
        poll_fn(|cx| {
            // Check for loss first: no step of the work may begin under a lock that is gone.
            let _ = lost.as_mut().poll(cx); // registers, so that a loss after the check below is not missed
            if let Some(loss) = self.owned.loss() {
                let lost = loss.error("the lock was lost");
                return Poll::Ready(Err(lost.during("work under").on(self.name())));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Gives the lock back, and waits for the store to confirm it: one round trip. If the store does not confirm it
    /// within the deadline of one command, the lock is [on its way](Released::OnItsWay): that is no error, because the
    /// work under the lock is done and the keeper continues to give it back. So `release().await?` is right after a
    /// commit. A hold that is [passed on](crate::Options::linger) inside the client is confirmed without a round trip:
    /// its lease had time left and this client knew of no loss, but the store was not asked whether it has the claim.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the lock was lost before: another client may have held it in the meantime. There
    /// is no other error.
    ///
    /// # Cancel safety
    /// The lock is given back in any case, also if the future is polled once and then neither polled nor dropped.
    pub async fn release(mut self) -> Result<Released> {
        if self.owned.pass_on() {
            self.hold = Span::none(); // what becomes of the claim now does not concern this hold
            return Released::of(Ok(()));
        }
        let released = self.owned.release().await.map_err(|error| error.during("release").on(self.name()));
        let is_news = self.owned.entry.loss() == Some(Loss::Left);
        if is_news && released.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost) {
            self.hold.record("loss", Loss::NotInLine.reason());
        }
        Released::of(released)
    }

    /// Its hold is passed on to nobody.
    pub(crate) fn ends_its_turn(&mut self) {
        self.owned.ends_its_turn();
    }

    pub(crate) fn capacity(&self) -> Weight {
        self.grant.capacity
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let loss = if self.hold.is_disabled() { None } else { self.owned.loss() };
        match loss {
            None | Some(Loss::Left) => {}
            Some(loss) => self.hold.record("loss", loss.reason()),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, token) = (self.name(), self.token());
        write!(f, "Guard({name:?}, token {token}, {:?}, {:?} remaining)", self.state(), self.remaining())
    }
}

/// The guard of a writer. It can become a reader's guard.
#[must_use = "the lock is given back as soon as the guard is dropped; bind it to a variable"]
#[derive(Debug)]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self(guard)
    }

    /// Turns the writer's guard into a reader's. It keeps its place and its token, and lets waiting readers in at
    /// once. No other writer gets in between.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the lock was lost before. After any other error the lock is given back.
    ///
    /// # Cancel safety
    /// Dropping the future gives the lock back.
    pub async fn downgrade(self) -> Result<Guard> {
        let mut guard = self.0;
        if let Some(loss) = guard.owned.loss() {
            return Err(loss.error("the lock was lost before").during("downgrade").on(guard.name()));
        }
        let claim = guard.owned.entry.claim.clone();
        let session = guard.owned.live.session.clone();
        guard.owned.writes_no_more();
        guard.owned.entry.lighten();
        let lightened = guard.owned.live.carry_out(async move { session.lighten(&claim, Weight::ONE).await });
        let lost = |error: Error| match error.kind() {
            // The store has nothing to lighten: the claim was lost in between.
            ErrorKind::Conflict => Loss::NotInLine.error("the lock was lost before").because(error),
            _ => error,
        };
        lightened.await.map_err(|error| lost(error).during("downgrade").on(guard.name()))?;
        guard.owned.now_reads();
        Ok(guard)
    }

    /// The same guard without the way to downgrade it.
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// See [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// The lock is given back in any case.
    pub async fn release(self) -> Result<Released> {
        self.0.release().await
    }
}

impl Deref for WriteGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// The future of [`Guard::lost`].
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    entry: Arc<Entry>,
    pass: u32,
    listener: u64,
}

impl Future for Lost {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.entry.poll_lost(self.pass, self.listener, cx).map(drop)
    }
}

/// What a judge asks that must change nothing: [`Guard::state`] loses what is overdue.
#[cfg(tidelock_simulation)]
impl Lost {
    /// Whether the guard can be trusted at `now`.
    #[must_use]
    pub fn is_trusted_at(&self, now: crate::backend::Moment) -> bool {
        !self.is_told() && now < self.entry.until()
    }

    /// Whether it is known to be lost or given back, and all that listen were told.
    #[must_use]
    pub fn is_told(&self) -> bool {
        !self.entry.is_in_pass(self.pass)
    }

    /// Until when the guard can be trusted.
    #[must_use]
    pub fn until(&self) -> crate::backend::Moment {
        self.entry.until()
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.entry.forget(self.listener);
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lost({:?})", self.entry)
    }
}

/// The future of [`Guard::jeopardy`] and [`Guard::held`].
#[must_use = "futures do nothing unless polled"]
pub struct Until {
    entry: Arc<Entry>,
    live: Weak<LiveSession>,
    clock: Arc<dyn Clock>,
    state: State,
    pass: u32,
    listener: u64,
}

impl Future for Until {
    type Output = State;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<State> {
        if self.entry.poll_changed(self.pass, self.listener, cx).is_ready() || self.is_over() {
            return Poll::Ready(State::Lost);
        }
        let now = if self.entry.is_in_jeopardy() { State::Jeopardy } else { State::Held };
        if now == self.state { Poll::Ready(now) } else { Poll::Pending }
    }
}

impl Until {
    /// Whether its time is over, which the keeper may not have noticed yet. Then the claim is lost from here on: the
    /// answer to a renewal may come later, and must not make it held again.
    fn is_over(&self) -> bool {
        let now = self.clock.now();
        if now < self.entry.until() {
            return false;
        }
        let live = self.live.upgrade(); // if there is none, the guard is gone too
        live.is_none_or(|live| owned_claim::loss_at(&live, &self.entry, now).is_some())
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        self.entry.forget(self.listener);
    }
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Until({:?}, {:?})", self.state, self.entry)
    }
}
