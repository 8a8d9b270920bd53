//! A leave under way, shared by the user that waits for its answer and the keeper that sees it through.
//!
//! The user polls the leave, and puts it here between polls. A user that has not come back when its time is over may
//! never do so. The keeper then takes the leave over at its next round, and reports the result to the user if it does
//! come back.

use std::task::{Context, Poll, Waker};

use crate::backend::{Left, Reply};
use crate::sync::Mutex;
use crate::{Result, deadline, shield};

/// Empty while there is no leave yet, or while its sender is polling it. Most claims never have one, so it is boxed.
pub(crate) struct SharedLeave(Mutex<Option<Box<State>>>);

enum State {
    /// The user waits to be woken.
    WithUser(Reply<Left>, Waker),
    /// The keeper sees it through.
    WithKeeper(Option<Waker>),
    /// The result that the keeper has heard.
    Answered(Result<Left>),
}

/// A leave that its user no longer waits for.
pub(crate) enum GivenUp {
    /// The keeper has it.
    WithKeeper,
    /// Nobody has it. Here it is if it is still under way; `None` if it has failed.
    Alone(Option<Reply<Left>>),
}

impl SharedLeave {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Polls a leave for its user; without `reply`, the one that was put here before. It lies here until the next
    /// poll.
    pub(crate) fn poll(&self, reply: Option<Reply<Left>>, cx: &mut Context<'_>) -> Poll<Result<Left>> {
        let mut reply = match reply.map_or_else(|| self.pick_up(cx), Ok) {
            Ok(reply) => reply,
            Err(answered) => return answered,
        };
        let answer = reply.as_mut().poll(cx); // without the lock: it may run anything
        if answer.is_pending() {
            let own = cx.waker().clone();
            *self.0.lock() = Some(Box::new(State::WithUser(reply, own)));
        }
        answer
    }

    /// The leave that its user has put here; or, if the keeper has it, what the keeper has heard.
    fn pick_up(&self, cx: &Context<'_>) -> Result<Reply<Left>, Poll<Result<Left>>> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut state = self.0.lock();
        let before = match state.take().map(|state| *state) {
            Some(State::WithUser(reply, before)) => {
                drop(state);
                drop(before); // may be the last handle of a task and drop all that the task holds
                return Ok(reply);
            }
            Some(State::Answered(answer)) => {
                *state = Some(Box::new(State::Answered(answer.clone())));
                return Err(Poll::Ready(answer));
            }
            Some(State::WithKeeper(before)) => before,
            None => None,
        };
        *state = Some(Box::new(State::WithKeeper(Some(own))));
        drop(state);
        drop(before);
        Err(Poll::Pending)
    }

    /// The user no longer waits for it.
    pub(crate) fn give_up(&self) -> GivenUp {
        let mut state = self.0.lock();
        let before = state.take().map(|state| *state);
        if let Some(State::WithKeeper(_) | State::Answered(_)) = before {
            *state = Some(Box::new(State::WithKeeper(None)));
        }
        drop(state);
        match before {
            Some(State::WithUser(reply, _)) => GivenUp::Alone(Some(reply)),
            Some(State::WithKeeper(_) | State::Answered(_)) => GivenUp::WithKeeper,
            None => GivenUp::Alone(None),
        }
    }

    /// Hands the leave to the keeper, if its user has put it here.
    pub(crate) fn take_over(&self) -> Option<Reply<Left>> {
        let mut state = self.0.lock();
        let (before, reply) = match state.take().map(|state| *state) {
            Some(State::WithUser(reply, waker)) => (Some(State::WithKeeper(Some(waker))), Some(reply)),
            other => (other, None),
        };
        *state = before.map(Box::new);
        reply
    }

    /// The keeper has heard the answer. The first answer counts, and only if the keeper has taken the leave over.
    pub(crate) fn answered(&self, answer: &Result<Left>) {
        let mut state = self.0.lock();
        let Some(State::WithKeeper(waker)) = state.as_deref_mut() else { return };
        let waker = waker.take();
        *state = Some(Box::new(State::Answered(answer.clone())));
        drop(state); // a waker may run anything
        if !seeded!("a_told_leave_wakes_nobody") {
            waker.into_iter().for_each(shield::wake);
        }
    }
}

/// Exists while the keeper sees a leave through. However that ends, the user does not wait in vain.
pub(crate) struct SeenThrough<'a>(pub(crate) &'a SharedLeave);

impl Drop for SeenThrough<'_> {
    fn drop(&mut self) {
        self.0.answered(&Err(deadline::no_answer()));
    }
}
