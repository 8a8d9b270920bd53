//! Work that several ask for, done once at a time: polled by each of them that is polled.
//!
//! So a future that nobody polls any more keeps nobody from what it has begun, nor from what has come of it. It goes on
//! for as long as anybody asks, whoever began it. Who finds it done has what came of it; its trouble is told to everyone
//! who asked before it was begun, and who came later may begin it anew. No async runtime has a say in any of this.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::{Error, Result, shield};

pub(crate) type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

pub(crate) struct Joint<T> {
    state: Mutex<State<T>>,
    bell: Arc<Bell>,
}

struct State<T> {
    next_number: u64,
    /// Who asks, each with the trouble that it is to hear of.
    asking: BTreeMap<u64, Option<Error>>,
    stage: Stage<T>,
}

enum Stage<T> {
    Idle,
    Lies(Begun<T>),
    /// Somebody polls it; and perhaps another wanted to, meanwhile.
    InHand {
        was_missed: bool,
    },
}

struct Begun<T> {
    work: Work<T>,
    /// Whoever asks under a lower number has asked since before.
    first_later: u64,
}

/// What there is for one that asks.
pub(crate) enum Found<'a, T> {
    /// It is its turn to poll.
    Work(Hand<'a, T>),
    /// This has come of the work.
    Trouble(Error),
    /// Another polls it just now.
    InHand,
}

impl<T> Joint<T> {
    /// Asks for it, until that is dropped.
    pub(crate) fn ask(&self) -> Asking<'_, T> {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.asking.insert(number, None);
        Asking { joint: self, number }
    }

    /// Has everyone who asks look again.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that asks.
pub(crate) struct Asking<'a, T> {
    joint: &'a Joint<T>,
    number: u64,
}

impl<'a, T> Asking<'a, T> {
    /// To be called before anything is looked at: what changes from here on wakes.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let before = self.joint.bell.wakers().insert(self.number, own);
        drop(before); // the last of a task, perhaps, with whatever that task holds
    }

    pub(crate) fn find(&self) -> Found<'a, T> {
        let mut state = self.joint.state();
        if let Some(trouble) = state.asking.get_mut(&self.number).and_then(Option::take) {
            return Found::Trouble(trouble);
        }
        let in_hand = |was_missed| Stage::InHand { was_missed };
        match std::mem::replace(&mut state.stage, in_hand(false)) {
            Stage::Idle => Found::Work(Hand { joint: self.joint, begun: None }),
            Stage::Lies(begun) => Found::Work(Hand { joint: self.joint, begun: Some(begun) }),
            Stage::InHand { .. } => {
                state.stage = in_hand(true);
                Found::InHand
            }
        }
    }
}

impl<T> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        let waker = self.joint.bell.wakers().remove(&self.number);
        let mut state = self.joint.state();
        let told = state.asking.remove(&self.number);
        // Nobody has it in hand where nobody asks.
        let unwanted = state.asking.is_empty().then(|| std::mem::replace(&mut state.stage, Stage::Idle));
        drop(state);
        drop((waker, told, unwanted)); // without a lock: they may run anything
    }
}

/// The work, in the hand of one that asks: begun when it is polled, and put back unless it is done by then.
pub(crate) struct Hand<'a, T> {
    joint: &'a Joint<T>,
    begun: Option<Begun<T>>,
}

impl<T> Hand<'_, T> {
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Ready with `None` after trouble, which whoever asked before it was begun finds next.
    pub(crate) fn poll(&mut self, begin: impl FnOnce() -> Work<T>) -> Poll<Option<T>> {
        let everyone = Waker::from(self.joint.bell.clone());
        let mut begun = self.begun.take().unwrap_or_else(|| self.begin(begin)); // what panics is not put back
        match begun.work.as_mut().poll(&mut Context::from_waker(&everyone)) {
            Poll::Pending => {
                self.begun = Some(begun);
                Poll::Pending
            }
            Poll::Ready(Ok(outcome)) => Poll::Ready(Some(outcome)),
            Poll::Ready(Err(trouble)) => {
                for (_, told) in self.joint.state().asking.range_mut(..begun.first_later) {
                    told.get_or_insert_with(|| trouble.clone());
                }
                Poll::Ready(None)
            }
        }
    }

    fn begin(&self, begin: impl FnOnce() -> Work<T>) -> Begun<T> {
        let first_later = self.joint.state().next_number;
        Begun { work: begin(), first_later }
    }
}

impl<T> Drop for Hand<'_, T> {
    fn drop(&mut self) {
        let is_over = self.begun.is_none();
        let mut state = self.joint.state();
        let was_missed = matches!(state.stage, Stage::InHand { was_missed: true });
        state.stage = self.begun.take().map_or(Stage::Idle, Stage::Lies);
        drop(state);
        if is_over || was_missed {
            self.joint.ring();
        }
    }
}

/// The wakers of all who ask.
#[derive(Default)]
struct Bell(Mutex<BTreeMap<u64, Waker>>);

impl Bell {
    fn wakers(&self) -> MutexGuard<'_, BTreeMap<u64, Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let wakers = std::mem::take(&mut *self.wakers()); // who is woken listens anew
        wakers.into_values().for_each(shield::wake);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

impl<T> Default for Joint<T> {
    fn default() -> Self {
        let state = State { next_number: 0, asking: BTreeMap::new(), stage: Stage::Idle };
        Self { state: Mutex::new(state), bell: Arc::default() }
    }
}

impl<T> fmt::Debug for Joint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Joint({} ask)", self.state().asking.len())
    }
}
