//! A leave under way, between the user who waits for its answer and the keeper who sees it through.
//!
//! Its user polls it, and lays it down here in between. A user who has not come back when its time was over may never
//! do so: the keeper takes it up at its next round, and tells what has come of it to a user who comes back after all.

use std::task::{Context, Poll, Waker};

use crate::sync::Cell;
use crate::{Left, Reply, Result, deadline, shield};

/// Empty while there is no leave yet, or whoever sent it is just polling it. Most claims never have more here, so that is
/// elsewhere.
pub(crate) struct Departure(Cell<Option<Box<Course>>>);

enum Course {
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
        Self(Cell::new(None))
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
            *self.0.lock() = Some(Box::new(Course::LaidDown(reply, own)));
        }
        answer
    }

    /// The leave that its user has laid down; or what the keeper, who has it, has told.
    fn pick_up(&self, cx: &Context<'_>) -> Result<Reply<Left>, Poll<Result<Left>>> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut course = self.0.lock();
        let before = match course.take().map(|course| *course) {
            Some(Course::LaidDown(reply, before)) => {
                drop(course);
                drop(before); // the last of a task, perhaps, with whatever that task holds
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

    /// Its user waits for it no more.
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

    /// The keeper takes it up, where its user has laid it down.
    pub(crate) fn take_up(&self) -> Option<Reply<Left>> {
        let mut course = self.0.lock();
        let (before, reply) = match course.take().map(|course| *course) {
            Some(Course::LaidDown(reply, waker)) => (Some(Course::TakenUp(Some(waker))), Some(reply)),
            other => (other, None),
        };
        *course = before.map(Box::new);
        reply
    }

    /// The keeper has heard of it. The first word counts, and only a leave that it has taken up is told of.
    pub(crate) fn tell(&self, answer: &Result<Left>) {
        let mut course = self.0.lock();
        let Some(Course::TakenUp(waker)) = course.as_deref_mut() else { return };
        let waker = waker.take();
        *course = Some(Box::new(Course::Told(answer.clone())));
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
