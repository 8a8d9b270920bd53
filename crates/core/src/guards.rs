//! Several locks at once: in one global order, with one deadline, all or nothing.
//!
//! All callers take the locks by name first, then by store, so no two can wait for each other in a circle. A lock
//! that is named twice is taken once. The name of a store does not tell whether two locks are the same: two stores
//! may have the same name, and one store may have two names. The lock's own line tells: either a claim of ours stands
//! in it or not.
//!
//! Two stores with the same name, under one namespace, have an order within one process only, and even there only if
//! each has one client (and its siblings). Another process may take locks of the same name in them the other way
//! round. Different namespaces give them an order everywhere.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Cell, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::backend::Moment;
use crate::{ClaimId, Error, ErrorKind, Guard, Lost, Mutex, Released, Result, State, Token, deadline};

/// Locks all of `mutexes`, of one store or of several, or none.
///
/// All callers take them in one order, so that no two wait for each other in a circle. If two stores have the same
/// name (two sentinel deployments whose masters are both `mymaster`) and the locks in them do too, give each store
/// its own [`namespace`](crate::Options::namespace): otherwise only this process knows in which order to take them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// # let locks = tidelock::connect("memory://").await?;
/// let accounts = [locks.mutex("account:7")?, locks.mutex("account:3")?];
/// let both = tidelock::lock_all(&accounts).await?;
/// assert!(both.token("account:3").is_some());
/// both.release().await?;
/// locks.close().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The first error of any of them; then no lock is held.
///
/// # Cancel safety
/// Dropping the future gives back all that was granted, and leaves every line.
pub async fn lock_all(mutexes: &[Arc<dyn Mutex>]) -> Result<Guards> {
    let mut taking = Taking::default();
    for mutex in in_order(mutexes) {
        if !taking.unless_lost(taking.guards.have(&**mutex)).await? {
            let guard = taking.unless_lost(mutex.lock()).await?;
            taking.add(guard);
        }
    }
    taking.all_or_nothing()
}

/// Like [`lock_all`], with one deadline for all. `None` if it passes; then no lock is held. Each store counts on its
/// own clock. With zero patience each lock is tried once.
///
/// # Errors
/// The first error of any of them; then no lock is held.
///
/// # Cancel safety
/// Dropping the future gives back all that was granted, and leaves every line.
pub async fn lock_all_within(mutexes: &[Arc<dyn Mutex>], patience: Duration) -> Result<Option<Guards>> {
    let until = |mutex: &Arc<dyn Mutex>| mutex.clock().now() + patience;
    let mutexes: Vec<_> = in_order(mutexes).into_iter().map(|mutex| (mutex, until(mutex))).collect();
    let mut taking = Taking::default();
    for (mutex, by) in mutexes {
        let have = taking.unless_lost(taking.guards.have(&**mutex));
        // With zero patience it is still asked once, like a try.
        let no_later = |_| if patience.is_zero() { Moment::NEVER } else { by };
        match deadline::by(&mutex.clock(), no_later, have).await.transpose()? {
            Some(true) => continue,
            Some(false) => {}
            None => return Ok(None),
        }
        let left = by.since(mutex.clock().now());
        if left.is_zero() && !patience.is_zero() && !taking.guards.0.is_empty() {
            return Ok(None);
        }
        match taking.unless_lost(mutex.lock_within(left)).await? {
            Some(guard) => taking.add(guard),
            None => return Ok(None),
        }
    }
    taking.all_or_nothing().map(Some)
}

/// The guards of [`lock_all`], given back together.
#[derive(Debug, Default)]
#[must_use = "the locks are given back as soon as this is dropped; bind it to a variable"]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// The token of the lock of that name; if several stores share the name, of the first one.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<Token> {
        self.iter().find(|guard| guard.name().as_str() == name).map(Guard::token)
    }

    /// The guards, in the order in which they were taken.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// How far all of them can be trusted together: as far as the worst one.
    #[must_use]
    pub fn state(&self) -> State {
        self.iter().map(Guard::state).max().unwrap_or(State::Held)
    }

    /// A future that is ready when the first of them is lost.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost: Vec<_> = self.iter().map(Guard::lost).collect();
        poll_fn(move |cx| match lost.iter_mut().any(|lost| Pin::new(lost).poll(cx).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }

    /// Gives all of them back, the last one first, and waits for the stores to confirm it. They are
    /// [on their way](Released::OnItsWay) if one of them is.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if one of them was lost before; the other locks are given back in any case.
    ///
    /// # Cancel safety
    /// The locks are given back in any case.
    pub async fn release(self) -> Result<Released> {
        let begin = |guard: Guard| (Box::pin(guard.release()), None);
        let mut releases: Vec<_> = self.0.into_iter().rev().map(begin).collect();
        // All releases begin now, so that none is kept back if this future is then left unpolled.
        poll_fn(|cx| {
            for (release, released) in &mut releases {
                *released = match release.as_mut().poll(cx) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                };
            }
            Poll::Ready(())
        })
        .await;
        let mut all = Ok(Released::Confirmed);
        for (release, released) in releases {
            let released = match released {
                Some(released) => released,
                None => release.await,
            };
            all = all.and_then(|all| Ok(all.and(released?)));
        }
        all
    }
}

impl Guards {
    /// Whether one of these guards holds this very lock. Locks were taken by name, so only the last guards can have
    /// its name.
    async fn have(&self, mutex: &dyn Mutex) -> Result<bool> {
        let of_its_name = self.0.iter().rev().take_while(|guard| guard.name() == mutex.name());
        let ours: Vec<ClaimId> = of_its_name.map(Guard::claim).collect();
        if ours.is_empty() {
            return Ok(false); // the usual case: nothing has to be asked
        }
        let line = mutex.line().await?;
        Ok(line.claims.iter().any(|claim| ours.contains(&claim.id)))
    }

    fn one_lost(&self) -> Error {
        let lost =
            Error::new(ErrorKind::Lost, "it was lost while waiting for the other locks; none is held now")
                .during("lock all")
                .can_succeed_later(); // no lock is held any more, and a retry asks for all again
        match self.iter().find(|guard| guard.state() == State::Lost) {
            Some(guard) => lost.on(guard.name()),
            None => lost,
        }
    }
}

/// The guards taken so far. Each one is listened to once, however many come after it.
#[derive(Default)]
struct Taking {
    guards: Guards,
    lost: Vec<Lost>,
    alarm: Arc<Alarm>,
}

/// Set off when one of the guards is lost.
#[derive(Default)]
struct Alarm {
    is_off: AtomicBool,
    waker: Cell<Option<Waker>>,
}

impl Taking {
    fn add(&mut self, guard: Guard) {
        let mut lost = guard.lost();
        let waker = Waker::from(self.alarm.clone());
        if Pin::new(&mut lost).poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
        self.guards.0.push(guard);
        self.lost.push(lost); // listens for as long as it lives
    }

    /// Waits for the next one, unless one of the held guards is lost first.
    async fn unless_lost<T>(&self, next: impl Future<Output = Result<T>>) -> Result<T> {
        let mut next = pin!(next);
        poll_fn(|cx| match self.alarm.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(self.guards.one_lost())),
            Poll::Pending => next.as_mut().poll(cx),
        })
        .await
    }

    fn all_or_nothing(self) -> Result<Guards> {
        if self.guards.state() == State::Lost { Err(self.guards.one_lost()) } else { Ok(self.guards) }
    }
}

impl Alarm {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let before = self.waker().replace(own);
        drop(before);
        if self.is_off.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.is_off.store(true, Ordering::Release);
        let waker = self.waker().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The mutexes in the order that all callers share. The same value twice is surely one lock.
fn in_order(mutexes: &[Arc<dyn Mutex>]) -> Vec<&Arc<dyn Mutex>> {
    let mut ordered: Vec<_> = mutexes.iter().collect();
    ordered.sort_by_key(|mutex| mutex.place());
    ordered.dedup_by(|one, other| Arc::ptr_eq(one, other));
    ordered
}
