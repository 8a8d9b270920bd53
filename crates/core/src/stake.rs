//! A claim that leaves when it is dropped, however far it has come.

use std::future::poll_fn;
use std::sync::Arc;

use crate::deadline;
use crate::live::Live;
use crate::standing::{Loss, Standing, Turn};
use crate::{Claim, Error, ErrorKind, Leave, Left, Moment, Patience, Place, Result, Sleep};

/// One claim of ours, and the duty to give it back.
#[derive(Debug)]
pub(crate) struct Stake {
    pub(crate) live: Arc<Live>,
    pub(crate) standing: Arc<Standing>,
}

impl Stake {
    /// Enters a claim. Nothing is sent.
    pub(crate) fn new(live: Arc<Live>, claim: Claim) -> Self {
        let shard = live.session.shard(&claim.name);
        let standing = live.registry.enter(claim, shard);
        Self { live, standing }
    }

    /// Stands in line. What got no answer is asked again, until `by` or the deadline of one command.
    pub(crate) async fn join(&self, patience: Patience, by: Moment) -> Result<Place> {
        let (live, clock) = (&*self.live, &self.live.clock);
        let by = by.min(self.standing.since + live.options.command_deadline);
        let mut pause = live.options.first_pause;
        loop {
            self.standing.ask();
            let error =
                match deadline::answer_by(clock, by, live.session.join(&self.standing.claim, patience)).await
                {
                    Ok(place) => return Ok(self.joined(place)),
                    Err(error) => error,
                };
            if !is_unknown(&error) {
                self.standing.answered();
                self.forget();
            }
            let retry_at = clock.now() + pause;
            if !error.can_retry() || retry_at >= by {
                return Err(error);
            }
            Sleep::until(clock, retry_at).await;
            pause = (pause * 2).min(live.options.longest_pause);
        }
    }

    /// Its turn, or its end; `None` when `by` comes first.
    pub(crate) async fn turn(&self, by: Moment) -> Option<Turn> {
        deadline::by(&self.live.clock, by, poll_fn(|cx| self.standing.poll_turn(cx))).await
    }

    /// Why it cannot be trusted any more, if so. Once it is lost by the clock it stays lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_at(self.live.clock.now())
    }

    fn loss_at(&self, now: Moment) -> Option<Loss> {
        if self.standing.until() <= now && self.standing.lose(self.standing.why_overdue(now)).is_some() {
            drop(self.live.leave(&self.standing));
        }
        self.standing.loss()
    }

    /// Leaves, and waits for the store to confirm it.
    pub(crate) async fn release(self) -> Result<()> {
        let lost = |loss: Loss| {
            Err(Error::new(ErrorKind::Lost, format!("the lock was lost before: {}", loss.reason())))
        };
        let now = self.live.clock.now();
        if let Some(loss) = self.loss_at(now) {
            return lost(loss);
        }
        if self.standing.lose(Loss::Left).is_none() {
            return lost(self.standing.loss().unwrap_or(Loss::NotInLine));
        }
        let by = now + self.live.options.command_deadline;
        let mut leaving = self.live.leave(&self.standing);
        match deadline::answer_by(&self.live.clock, by, leaving.answer()).await? {
            Left::Held => Ok(()),
            Left::Waiting | Left::Absent => lost(Loss::NotInLine),
        }
    }

    fn joined(&self, place: Place) -> Place {
        self.standing.answered();
        match place {
            Place::Held { grant, until } => {
                self.live.registry.extend(&self.standing, until);
                self.live.registry.hold(&self.standing, grant);
            }
            Place::Waiting { until, look_in } => {
                self.live.registry.extend(&self.standing, until);
                self.live.registry.wait(&self.standing, look_in);
            }
            Place::Refused | Place::Gone => self.forget(),
        }
        place
    }

    /// Nothing of it is in the store, unless an earlier join of it got no answer.
    fn forget(&self) {
        if self.standing.how_to_leave() == Leave::Done {
            self.live.registry.remove(self.standing.claim.id.number);
            self.standing.lose(Loss::Left);
        }
    }
}

impl Drop for Stake {
    fn drop(&mut self) {
        // Whoever lost it before has dealt with its leave.
        if self.standing.lose(Loss::Left).is_some() {
            drop(self.live.leave(&self.standing));
        }
    }
}

/// Whether the store may have done what was asked.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
