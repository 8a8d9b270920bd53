//! A leave under way, shared by the user that waits for its answer and the keeper that sees it through.
//!
//! The user polls the leave, and puts it here between polls. A user that has not come back when its time is over may
//! never do so. The keeper then takes the leave over at its next round, and reports the result to the user if it does
//! come back.

use std::task::{Context, Poll, Waker};

use crate::backend::{Left, Reply};
use crate::sync::Cell;
use crate::{Result, deadline, shield};

/// Empty while there is no leave yet, or while its sender is polling it. Most claims never have one, so it is boxed.
pub(crate) struct Departure(Cell<Option<Box<Course>>>);

enum Course {
    /// The user waits to be woken.
    LaidDown(Reply<Left>, Waker),
    /// The keeper sees it through.
    TakenUp(Option<Waker>),
    /// The result that the keeper has heard.
    Told(Result<Left>),
}

/// A leave that its user no longer waits for.
pub(crate) enum GivenUp {
    /// The keeper has it.
    TakenUp,
    /// Nobody has it. Here it is if it is still under way; `None` if it has failed.
    Alone(Option<Reply<Left>>),
}

impl Departure {
    pub(crate) fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Polls a leave for its user; without `reply`, the one that was put here before. It lies here until the next
    /// poll.
    pub(crate) fn poll(&self, reply: Option<Reply<Left>>, cx: &mut Context<'_>) -> Poll<Result<Left>> {
        let mut reply = match reply.map_or_else(|| self.pick_up(cx), Ok) {
            Ok(reply) => reply,
            Err(told) => return told,
        };
        let answer = reply.as_mut().poll(cx); // without the lock: it may run anything
        if answer.is_pending() {
            let own = cx.waker().clone();
            *self.0.lock() = Some(Box::new(Course::LaidDown(reply, own)));
        }
        answer
    }

    /// The leave that its user has put here; or, if the keeper has it, what the keeper has heard.
    fn pick_up(&self, cx: &Context<'_>) -> Result<Reply<Left>, Poll<Result<Left>>> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut course = self.0.lock();
        let before = match course.take().map(|course| *course) {
            Some(Course::LaidDown(reply, before)) => {
                drop(course);
                drop(before); // may be the last handle of a task and drop all that the task holds
                return Ok(reply);
            }
            Some(Course::Told(answer)) => {
                *course = Some(Box::new(Course::Told(answer.clone())));
                return Err(Poll::Ready(answer));
            }
            Some(Course::TakenUp(before)) => before,
            None => None,
        };
        *course = Some(Box::new(Course::TakenUp(Some(own))));
        drop(course);
        drop(before);
        Err(Poll::Pending)
    }

    /// The user no longer waits for it.
    pub(crate) fn give_up(&self) -> GivenUp {
        let mut course = self.0.lock();
        let before = course.take().map(|course| *course);
        if let Some(Course::TakenUp(_) | Course::Told(_)) = before {
            *course = Some(Box::new(Course::TakenUp(None)));
        }
        drop(course);
        match before {
            Some(Course::LaidDown(reply, _)) => GivenUp::Alone(Some(reply)),
            Some(Course::TakenUp(_) | Course::Told(_)) => GivenUp::TakenUp,
            None => GivenUp::Alone(None),
        }
    }

    /// Hands the leave to the keeper, if its user has put it here.
    pub(crate) fn take_up(&self) -> Option<Reply<Left>> {
        let mut course = self.0.lock();
        let (before, reply) = match course.take().map(|course| *course) {
            Some(Course::LaidDown(reply, waker)) => (Some(Course::TakenUp(Some(waker))), Some(reply)),
            other => (other, None),
        };
        *course = before.map(Box::new);
        reply
    }

    /// The keeper has heard the answer. The first answer counts, and only if the keeper has taken the leave over.
    pub(crate) fn tell(&self, answer: &Result<Left>) {
        let mut course = self.0.lock();
        let Some(Course::TakenUp(waker)) = course.as_deref_mut() else { return };
        let waker = waker.take();
        *course = Some(Box::new(Course::Told(answer.clone())));
        drop(course); // a waker may run anything
        if !seeded!("a_told_leave_wakes_nobody") {
            waker.into_iter().for_each(shield::wake);
        }
    }
}

/// Exists while the keeper sees a leave through. However that ends, the user does not wait in vain.
pub(crate) struct SeenThrough<'a>(pub(crate) &'a Departure);

impl Drop for SeenThrough<'_> {
    fn drop(&mut self) {
        self.0.tell(&Err(deadline::no_answer()));
    }
}
