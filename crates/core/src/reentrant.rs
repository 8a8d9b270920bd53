//! A mutex that its owner may lock again.
//!
//! Each owner has one cell: a weak link to the guard that the owner's holds share, and the one acquire that is under
//! way for all of them. A caller that finds the guard alive shares it. Any other caller polls that acquire. So an
//! owner stands in line once, a future that nobody polls keeps no other caller of the owner from the lock, and the
//! place in line is kept while any of them has patience. The acquire itself waits without limit; each caller that
//! polls it has its own limit. The depth is the number of shares: when the last one goes, the guard goes too.
//!
//! Polling cannot replace the runtime on which the acquire was begun: a backend may send through a connection that
//! only that runtime serves. If that runtime stands still before the store has answered, callers elsewhere get no
//! answer either until the request is given up: after `command_deadline` or a ttl, whichever is less.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::backend::{Moment, Sleep};
use crate::progress::Progress;
use crate::shared_future::{Found, SharedFuture, Work};
use crate::{Error, ErrorKind, Guard, Mutex, Released, Result, State};

#[derive(Debug, Default)]
struct Cell {
    held: std::sync::Mutex<Weak<Guard>>,
    acquire: SharedFuture<Guard>,
    /// What the store has said to that acquire.
    progress: Progress,
}

/// A mutex that the same [`Owner`] may lock again while it holds it: the token stays the same.
///
/// Another task of the same process is another owner, unless it was given the same `Owner`. However many tasks of an
/// owner wait, the owner stands in line once, and keeps its place until one of them has the lock or the last one gives
/// up. The others share that hold if they run while it lasts. A task that runs only after it was given back stands in
/// line anew, at the tail.
///
/// Run the tasks of one owner on one runtime if you can. If they are on several, and the runtime of the first task
/// stands still before the store has answered it, the other tasks wait until that request is given up, even if the
/// lock is free: for `command_deadline` or a ttl, whichever is less.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::{Owner, Reentrant};
/// # let locks = tidelock::connect("memory://").await?;
/// let mutex = Reentrant::new(locks.mutex("order:7")?);
/// let me = Owner::new();
/// let outer = mutex.lock(&me).await?;
/// let inner = mutex.lock(&me).await?;
/// assert_eq!(outer.token(), inner.token());
/// assert!(mutex.try_lock(&Owner::new()).await?.is_none());
/// # drop((outer, inner)); locks.close().await?; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Reentrant {
    mutex: Arc<dyn Mutex>,
    cells: std::sync::Mutex<Cells>,
}

#[derive(Debug, Default)]
struct Cells {
    of: HashMap<Owner, Arc<Cell>>,
    /// The number of cells at which it is time to forget the unused ones.
    prune_at: usize,
}

/// Identifies the holder that may lock again what it has locked: a request, a job, a unit of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

tokio::task_local! {
    static CURRENT: Owner;
}

impl Owner {
    /// An owner that differs from every other in this process.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two new owners differ, two defaults should not")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes this owner the current one while `work` runs. Tasks that `work` spawns do not inherit it.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// The owner of the current scope: see [`scope`](Owner::scope).
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

impl Reentrant {
    /// Makes `mutex` re-entrant for all callers that lock it through this one value: share it.
    #[must_use]
    pub fn new(mutex: Arc<dyn Mutex>) -> Self {
        Self { mutex, cells: std::sync::Mutex::default() }
    }

    /// Waits its turn, unless `owner` already holds the lock.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the owner's hold was lost and some of its guards still exist; otherwise as for
    /// [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`].
    pub async fn lock(&self, owner: &Owner) -> Result<ReentrantGuard> {
        let acquired = self.acquire(owner, Moment::NEVER).await?;
        acquired.ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "a wait without a time limit ended without the lock")
        })
    }

    /// Takes the lock if that is possible at once, otherwise `None`, also while another acquire of the same owner
    /// stands in line.
    ///
    /// # Errors
    /// As for [`lock`](Reentrant::lock).
    ///
    /// # Cancel safety
    /// As for [`Mutex::try_lock`].
    pub async fn try_lock(&self, owner: &Owner) -> Result<Option<ReentrantGuard>> {
        let cell = self.cell(owner);
        if let Some(again) = self.share(&cell)? {
            return Ok(Some(again));
        }
        if let Some(granted) = self.unseen(&cell) {
            return Ok(Some(granted));
        }
        match self.mutex.try_lock().await? {
            Some(guard) => {
                let first = cell.first(guard);
                cell.acquire.wake_all();
                Ok(Some(first))
            }
            None => self.share(&cell), // another acquire of this owner may have it by now
        }
    }

    /// Waits its turn for at most `patience`, unless `owner` already holds the lock.
    ///
    /// # Errors
    /// As for [`lock`](Reentrant::lock).
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`].
    pub async fn lock_within(&self, owner: &Owner, patience: Duration) -> Result<Option<ReentrantGuard>> {
        match patience.is_zero() {
            true => self.try_lock(owner).await, // with no time to wait it still asks once
            false => self.acquire(owner, self.mutex.clock().now() + patience).await,
        }
    }

    /// Shares the owner's hold, or polls the acquire that will give it one until `by`. Begins the acquire if there is
    /// none.
    async fn acquire(&self, owner: &Owner, by: Moment) -> Result<Option<ReentrantGuard>> {
        let cell = self.cell(owner);
        if let Some(again) = self.share(&cell)? {
            return Ok(Some(again));
        }
        let (caller, clock) = (cell.acquire.ask(), self.mutex.clock());
        let mut late = Sleep::until(&clock, by);
        poll_fn(|cx| {
            loop {
                caller.listen(cx);
                if let Some(again) = self.share(&cell)? {
                    return Poll::Ready(Ok(Some(again)));
                }
                match caller.find() {
                    Found::Trouble(error) => return Poll::Ready(Err(error)),
                    Found::InHand => {}
                    Found::Work(mut hand) => match hand.poll(|| self.begin(&cell)) {
                        Poll::Ready(Some(guard)) => {
                            return Poll::Ready(Ok(Some(cell.first(guard)))); // then all others are woken
                        }
                        Poll::Ready(None) => continue,
                        Poll::Pending => {}
                    },
                }
                return Pin::new(&mut late).poll(cx).map(|()| self.in_vain(&cell));
            }
        })
        .await
    }

    fn begin(&self, cell: &Cell) -> Work<Guard> {
        let mutex = self.mutex.clone();
        Box::pin(cell.progress.of(async move { mutex.lock().await }))
    }

    /// The result when the time is over: another owner holds the lock if the store has said so, otherwise the store's
    /// error.
    fn in_vain(&self, cell: &Cell) -> Result<Option<ReentrantGuard>> {
        let trouble = cell.progress.trouble().map(|error| error.during("lock").on(self.mutex.name()));
        trouble.map_or(Ok(None), Err)
    }

    /// The grant of an acquire of this owner that nobody has polled since it came.
    fn unseen(&self, cell: &Cell) -> Option<ReentrantGuard> {
        let caller = cell.acquire.ask();
        let Found::Work(mut hand) = caller.find() else {
            return None;
        };
        if !hand.has_begun() {
            return None;
        }
        match hand.poll(|| self.begin(cell)) {
            Poll::Ready(guard) => guard.map(|guard| cell.first(guard)),
            Poll::Pending => None,
        }
    }

    fn cell(&self, owner: &Owner) -> Arc<Cell> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.of.len() >= cells.prune_at {
            // Owners come and go: forget the cells that nobody uses and whose guard is gone.
            cells.of.retain(|_, cell| Arc::strong_count(cell) > 1 || cell.held().strong_count() > 0);
            cells.prune_at = 2 * cells.of.len().max(16);
        }
        cells.of.entry(owner.clone()).or_default().clone()
    }

    fn share(&self, cell: &Cell) -> Result<Option<ReentrantGuard>> {
        let Some(guard) = cell.held().upgrade() else {
            return Ok(None);
        };
        if guard.state() == State::Lost {
            return Err(lost().during("lock again").on(self.mutex.name()));
        }
        Ok(Some(ReentrantGuard(guard)))
    }
}

impl Cell {
    fn first(&self, guard: Guard) -> ReentrantGuard {
        let guard = Arc::new(guard);
        *self.held() = Arc::downgrade(&guard);
        ReentrantGuard(guard)
    }

    fn held(&self) -> MutexGuard<'_, Weak<Guard>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Lost, "this owner's hold was lost; drop all its guards, then lock again")
}

/// One of an owner's holds. The lock is given back with the last of them.
#[derive(Debug)]
#[must_use = "the hold ends as soon as the guard is dropped; bind it to a variable"]
pub struct ReentrantGuard(Arc<Guard>);

impl ReentrantGuard {
    /// How many holds of the owner share the lock.
    #[must_use]
    pub fn depth(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Ends this hold. If it is the last one, gives the lock back and waits for the store to confirm it. While the
    /// owner has others, nothing has to be given back, and the end of this one is [`Released::Confirmed`] at once.
    ///
    /// # Errors
    /// As for [`Guard::release`].
    ///
    /// # Cancel safety
    /// The hold ends in any case.
    pub async fn release(self) -> Result<Released> {
        let (name, state) = (self.name().clone(), self.state());
        match Arc::into_inner(self.0) {
            Some(guard) => guard.release().await,
            None if state == State::Lost => Err(lost().during("release").on(&name)),
            None => Ok(Released::Confirmed),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.0
    }
}
