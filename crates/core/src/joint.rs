//! Work that several ask for, done once at a time: polled by each of them that is polled.
//!
//! So a future that nobody polls any more keeps nobody from what it has begun, nor from what has come of it. Who finds it
//! done has what came of it; what is of no use to others is told to the one that began it. When nobody asks any more it is
//! dropped. No async runtime has a say in any of this.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::shield;

pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(crate) struct Joint<T> {
    state: Mutex<State<T>>,
    bell: Arc<Bell>,
}

struct State<T> {
    next_number: u64,
    /// Who asks, each with what has come of its own work while another polled it.
    asking: BTreeMap<u64, Option<T>>,
    stage: Stage<T>,
}

/// Where the work is, and whose it is.
enum Stage<T> {
    Idle,
    Lies(u64, Work<T>),
    /// Somebody polls it; and perhaps another wanted to, meanwhile.
    InHand {
        of: u64,
        was_missed: bool,
    },
}

/// What there is for one that asks.
pub(crate) enum Found<'a, T> {
    /// It is its turn to poll.
    Work(Hand<'a, T>),
    /// This has come of its own work.
    Told(T),
    /// Another polls it just now.
    InHand { is_own: bool },
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
        if let Some(told) = state.asking.get_mut(&self.number).and_then(Option::take) {
            return Found::Told(told);
        }
        let (of, work) = match std::mem::replace(&mut state.stage, Stage::Idle) {
            Stage::Idle => (self.number, None),
            Stage::Lies(of, work) => (of, Some(work)),
            Stage::InHand { of, .. } => {
                state.stage = Stage::InHand { of, was_missed: true };
                return Found::InHand { is_own: of == self.number };
            }
        };
        state.stage = Stage::InHand { of, was_missed: false };
        Found::Work(Hand { joint: self.joint, is_own: of == self.number, of, work })
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
    pub(crate) is_own: bool,
    of: u64,
    work: Option<Work<T>>,
}

impl<T> Hand<'_, T> {
    pub(crate) fn poll(&mut self, begin: impl FnOnce() -> Work<T>) -> Poll<T> {
        let everyone = Waker::from(self.joint.bell.clone());
        let mut work = self.work.take().unwrap_or_else(begin); // what panics is not put back
        let polled = work.as_mut().poll(&mut Context::from_waker(&everyone));
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }

    /// Tells what has come of it to the one that began it, if that one still asks.
    pub(crate) fn tell(self, outcome: T) {
        let mut untold = Some(outcome);
        if let Some(told) = self.joint.state().asking.get_mut(&self.of) {
            std::mem::swap(told, &mut untold);
        }
    }
}

impl<T> Drop for Hand<'_, T> {
    fn drop(&mut self) {
        let is_over = self.work.is_none();
        let mut state = self.joint.state();
        let was_missed = matches!(state.stage, Stage::InHand { was_missed: true, .. });
        state.stage = self.work.take().map_or(Stage::Idle, |work| Stage::Lies(self.of, work));
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
