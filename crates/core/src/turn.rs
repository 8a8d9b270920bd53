//! A turn: one at a time has it, within one process.
//!
//! It goes to whoever asks first when it is free, and is handed to nobody: those who wait are woken, all of them, so a
//! future that nobody polls any more keeps no other from it. No async runtime has a say in when it is free.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::shield;

#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    next_number: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Turn {
    /// Waits until it is free, and takes it.
    pub(crate) async fn take(&self) -> Taken<'_> {
        let mut waiting = Waiting { turn: self, number: None };
        poll_fn(|cx| waiting.poll(cx)).await
    }

    /// Takes it if it is free.
    pub(crate) fn try_take(&self) -> Option<Taken<'_>> {
        match std::mem::replace(&mut self.state().is_taken, true) {
            true => None,
            false => Some(Taken(self)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of whoever has this.
#[must_use]
pub(crate) struct Taken<'a>(&'a Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_taken = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state); // a waker may run anything
        waiting.into_values().for_each(shield::wake);
    }
}

struct Waiting<'a> {
    turn: &'a Turn,
    number: Option<u64>,
}

impl<'a> Waiting<'a> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Taken<'a>> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut state = self.turn.state();
        if !std::mem::replace(&mut state.is_taken, true) {
            return Poll::Ready(Taken(self.turn));
        }
        let number = *self.number.get_or_insert(state.next_number);
        state.next_number = state.next_number.max(number + 1);
        let before = state.waiting.insert(number, own);
        drop(state);
        drop(before); // the last of a task, perhaps, with whatever that task holds
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let before = self.turn.state().waiting.remove(&number);
            drop(before);
        }
    }
}
