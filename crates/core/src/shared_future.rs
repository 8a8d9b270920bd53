//! Work that several callers ask for, done once at a time, and polled by each of them that is polled.
//!
//! So a future that nobody polls any more does not keep other callers from the work or its result. The work goes on
//! for as long as any caller asks for it, whichever one began it. The caller that finds it done gets the result. An
//! error goes to all callers that asked before the work was begun; a caller that came later may begin it again. None
//! of this depends on an async runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::{Error, Result, shield};

pub(crate) type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

pub(crate) struct SharedFuture<T> {
    state: Mutex<State<T>>,
    everyone: Arc<Everyone>,
}

struct State<T> {
    next_number: u64,
    /// The callers, each with the error that it is to hear of.
    callers: BTreeMap<u64, Option<Error>>,
    stage: Stage<T>,
}

enum Stage<T> {
    Idle,
    Lies(Begun<T>),
    /// A caller polls it. Another caller may have wanted to in the meantime.
    InHand {
        was_missed: bool,
    },
}

struct Begun<T> {
    work: Work<T>,
    /// Callers with a lower number asked before the work was begun.
    first_later: u64,
}

/// What a caller finds.
pub(crate) enum Found<'a, T> {
    /// It is this caller's turn to poll.
    Work(Hand<'a, T>),
    /// The work ended with this error.
    Trouble(Error),
    /// Another caller is polling it.
    InHand,
}

impl<T> SharedFuture<T> {
    /// Asks for the work, until the result is dropped.
    pub(crate) fn ask(&self) -> Caller<'_, T> {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.callers.insert(number, None);
        Caller { shared: self, number }
    }

    /// Makes all callers look again.
    pub(crate) fn wake_all(&self) {
        self.everyone.wake_all();
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that asks for the work.
pub(crate) struct Caller<'a, T> {
    shared: &'a SharedFuture<T>,
    number: u64,
}

impl<'a, T> Caller<'a, T> {
    /// Call this before looking at anything: changes from now on wake the caller.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let before = self.shared.everyone.wakers().by_caller.insert(self.number, own);
        drop(before); // may be the last handle of a task and drop all that the task holds
    }

    pub(crate) fn find(&self) -> Found<'a, T> {
        let mut state = self.shared.state();
        if let Some(trouble) = state.callers.get_mut(&self.number).and_then(Option::take) {
            return Found::Trouble(trouble);
        }
        let in_hand = |was_missed| Stage::InHand { was_missed };
        match std::mem::replace(&mut state.stage, in_hand(false)) {
            Stage::Idle => Found::Work(Hand { shared: self.shared, begun: None }),
            Stage::Lies(begun) => Found::Work(Hand { shared: self.shared, begun: Some(begun) }),
            Stage::InHand { .. } => {
                state.stage = in_hand(true);
                Found::InHand
            }
        }
    }
}

impl<T> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        let waker = self.shared.everyone.wakers().by_caller.remove(&self.number);
        let mut state = self.shared.state();
        let told = state.callers.remove(&self.number);
        // If no caller is left, none is polling it.
        let unwanted = state.callers.is_empty().then(|| std::mem::replace(&mut state.stage, Stage::Idle));
        drop(state);
        drop((waker, told, unwanted)); // outside the lock: they may run any code
    }
}

/// The work in the hands of one caller. It is begun when it is polled, and put back unless it is done by then.
pub(crate) struct Hand<'a, T> {
    shared: &'a SharedFuture<T>,
    begun: Option<Begun<T>>,
}

impl<T> Hand<'_, T> {
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Ready with `None` after an error; callers that asked before the work was begun find that error next.
    pub(crate) fn poll(&mut self, begin: impl FnOnce() -> Work<T>) -> Poll<Option<T>> {
        let everyone = Waker::from(self.shared.everyone.clone());
        let mut begun = self.begun.take().unwrap_or_else(|| self.begin(begin)); // work that panics is not put back
        self.shared.everyone.wakers().was_woken = false;
        match begun.work.as_mut().poll(&mut Context::from_waker(&everyone)) {
            Poll::Pending => {
                self.begun = Some(begun);
                Poll::Pending
            }
            Poll::Ready(Ok(outcome)) => Poll::Ready(Some(outcome)),
            Poll::Ready(Err(trouble)) => {
                for (_, told) in self.shared.state().callers.range_mut(..begun.first_later) {
                    told.get_or_insert_with(|| trouble.clone());
                }
                Poll::Ready(None)
            }
        }
    }

    fn begin(&self, begin: impl FnOnce() -> Work<T>) -> Begun<T> {
        let first_later = self.shared.state().next_number;
        Begun { work: begin(), first_later }
    }
}

impl<T> Drop for Hand<'_, T> {
    fn drop(&mut self) {
        let is_over = self.begun.is_none();
        let mut state = self.shared.state();
        let was_missed = matches!(state.stage, Stage::InHand { was_missed: true });
        let was_woken = self.shared.everyone.wakers().was_woken;
        state.stage = self.begun.take().map_or(Stage::Idle, Stage::Lies);
        drop(state);
        // A caller that missed the work was woken for nothing if the work moved on during this poll: this poll has
        // not seen it, and the caller that polled may not come back. So all are woken. If the work has not moved on,
        // there is nothing to do until it wakes them; waking them now would make them miss it again, because of each
        // other, for ever.
        if is_over || (was_missed && was_woken) {
            self.shared.wake_all();
        }
    }
}

/// The wakers of all callers.
#[derive(Default)]
struct Everyone(Mutex<Wakers>);

#[derive(Default)]
struct Wakers {
    by_caller: BTreeMap<u64, Waker>,
    /// Whether the work has woken them since the current poll began.
    was_woken: bool,
}

impl Everyone {
    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.wakers().by_caller); // a caller that is woken listens again
        wakers.into_values().for_each(shield::wake);
    }
}

impl Wake for Everyone {
    fn wake(self: Arc<Self>) {
        self.wakers().was_woken = true;
        self.wake_all();
    }
}

impl<T> Default for SharedFuture<T> {
    fn default() -> Self {
        let state = State { next_number: 0, callers: BTreeMap::new(), stage: Stage::Idle };
        Self { state: Mutex::new(state), everyone: Arc::default() }
    }
}

impl<T> fmt::Debug for SharedFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFuture({} ask)", self.state().callers.len())
    }
}

#[cfg(all(test, not(tidelock_loom)))]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often a caller is woken that finds the work in another caller's hands, while that one polls it and
    /// `happens` is called with the work's waker.
    fn woken_after_missing_it(happens: fn(&Waker)) -> u32 {
        let shared = Arc::new(SharedFuture::<()>::default());
        let woken = Arc::new(Woken::default());
        let misses = {
            let (shared, waker) = (shared.clone(), Waker::from(woken.clone()));
            move |work: &Waker| {
                let other = shared.ask();
                other.listen(&Context::from_waker(&waker));
                happens(work);
                other.listen(&Context::from_waker(&waker)); // if it was woken, it looks once more
                assert!(matches!(other.find(), Found::InHand));
                std::mem::forget(other); // it keeps asking
            }
        };
        let polls = shared.ask();
        polls.listen(&Context::from_waker(Waker::noop()));
        let Found::Work(mut hand) = polls.find() else { unreachable!("nobody else asks") };
        let polled = hand.poll(|| {
            Box::pin(poll_fn(move |cx| {
                misses(cx.waker());
                Poll::Pending
            }))
        });
        assert!(polled.is_pending());
        drop(hand);
        woken.0.load(Ordering::Relaxed)
    }

    #[test]
    fn who_misses_a_poll_that_changes_nothing_is_left_in_peace() {
        assert_eq!(woken_after_missing_it(|_| {}), 0);
    }

    #[test]
    fn who_misses_a_poll_during_which_the_work_moves_on_is_woken_for_it() {
        assert_eq!(woken_after_missing_it(Waker::wake_by_ref), 2);
    }
}
