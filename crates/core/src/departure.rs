//! A leave under way, between the user who waits for its answer and the keeper who sees it through.
//!
//! Its user polls it, and lays it down here in between. A user who has not come back when its time was over may never
//! do so: the keeper takes it up at its next round, and tells what has come of it to a user who comes back after all.

use std::task::{Context, Poll, Waker};

use crate::sync::Cell;
use crate::{Left, Reply, Result, deadline, shield};

pub(crate) struct Departure(Cell<Course>);

enum Course {
    /// There is no leave yet, or whoever sent it is just polling it.
    InHand,
    /// Its user waits to be woken.
    LaidDown(Reply<Left>, Waker),
    /// The keeper sees it through.
    TakenUp(Option<Waker>),
    /// What the keeper has heard.
    Told(Result<Left>),
}

/// A leave that its user waits for no more.
pub(crate) enum GivenUp {
    /// The keeper has it.
    TakenUp,
    /// Nobody has it: as it is on its way, unless it has failed.
    Alone(Option<Reply<Left>>),
}

impl Departure {
    pub(crate) fn new() -> Self {
        Self(Cell::new(Course::InHand))
    }

    /// Polls a leave for its user, the one that was laid down before if none is given. It lies here until the next poll.
    pub(crate) fn poll(&self, reply: Option<Reply<Left>>, cx: &mut Context<'_>) -> Poll<Result<Left>> {
        let mut reply = match reply.map_or_else(|| self.pick_up(cx), Ok) {
            Ok(reply) => reply,
            Err(told) => return told,
        };
        let answer = reply.as_mut().poll(cx); // without the lock: it may run anything
        if answer.is_pending() {
            let own = cx.waker().clone();
            *self.0.lock() = Course::LaidDown(reply, own);
        }
        answer
    }

    /// The leave that its user has laid down; or what the keeper, who has it, has told.
    fn pick_up(&self, cx: &Context<'_>) -> Result<Reply<Left>, Poll<Result<Left>>> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut course = self.0.lock();
        let before = match std::mem::replace(&mut *course, Course::InHand) {
            Course::LaidDown(reply, before) => {
                drop(course);
                drop(before); // the last of a task, perhaps, with whatever that task holds
                return Ok(reply);
            }
            Course::Told(answer) => {
                *course = Course::Told(answer.clone());
                return Err(Poll::Ready(answer));
            }
            Course::TakenUp(before) => before,
            Course::InHand => None,
        };
        *course = Course::TakenUp(Some(own));
        drop(course);
        drop(before);
        Err(Poll::Pending)
    }

    /// Its user waits for it no more.
    pub(crate) fn give_up(&self) -> GivenUp {
        let mut course = self.0.lock();
        let before = match &mut *course {
            Course::TakenUp(waker) => Course::TakenUp(waker.take()),
            Course::Told(_) => Course::TakenUp(None),
            other => std::mem::replace(other, Course::InHand),
        };
        drop(course);
        match before {
            Course::LaidDown(reply, _) => GivenUp::Alone(Some(reply)),
            Course::InHand => GivenUp::Alone(None),
            Course::TakenUp(_) | Course::Told(_) => GivenUp::TakenUp,
        }
    }

    /// The keeper takes it up, where its user has laid it down.
    pub(crate) fn take_up(&self) -> Option<Reply<Left>> {
        let mut course = self.0.lock();
        let (before, reply) = match std::mem::replace(&mut *course, Course::InHand) {
            Course::LaidDown(reply, waker) => (Course::TakenUp(Some(waker)), Some(reply)),
            other => (other, None),
        };
        *course = before;
        reply
    }

    /// The keeper has heard of it. The first word counts, and only a leave that it has taken up is told of.
    pub(crate) fn tell(&self, answer: &Result<Left>) {
        let mut course = self.0.lock();
        let waker = match &mut *course {
            Course::TakenUp(waker) => waker.take(),
            _ => return,
        };
        *course = Course::Told(answer.clone());
        drop(course); // a waker may run anything
        if !cfg!(tidelock_fault = "a_told_leave_wakes_nobody") {
            waker.into_iter().for_each(shield::wake);
        }
    }
}

/// While the keeper sees a leave through. However that ends, its user does not wait for nothing.
pub(crate) struct SeenThrough<'a>(pub(crate) &'a Departure);

impl Drop for SeenThrough<'_> {
    fn drop(&mut self) {
        self.0.tell(&Err(deadline::no_answer()));
    }
}
