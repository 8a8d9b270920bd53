//! A claim of a local line, with the join that the store has not answered: both belong to the line and not to the task
//! that leads. So a leader that gives up leaves the join to the next one, who goes on with it; otherwise a crowd in which
//! each comes to lead with little patience left would ask for ever, and never wait for an answer.

use crate::Result;
use crate::backend::{Moment, Patience};
use crate::joining::{Begun, Join, Joined, Request};
use crate::owned_claim::OwnedClaim;
use crate::retries::Retries;

/// A claim on its way into the store's line, or in it.
pub(crate) struct Standing {
    /// Until the store has answered. It is dropped before the claim leaves.
    join: Option<Box<Join<'static>>>,
    /// It is being sent for the first time; if that is over, it has panicked.
    begins: bool,
    is_answered: bool,
    pub(crate) owned: OwnedClaim,
}

impl Standing {
    pub(crate) const fn of(owned: OwnedClaim) -> Self {
        Self { join: None, begins: false, is_answered: false, owned }
    }

    /// Whether the store has answered its join.
    pub(crate) const fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Whether a request of its join has panicked, and not only its user.
    pub(crate) fn has_panicked(&self) -> bool {
        self.begins || self.join.as_ref().is_some_and(|join| join.is_polled)
    }

    /// Joins the line for nobody else: whoever gives up gives up the join too.
    pub(crate) async fn join_alone(
        &mut self,
        patience: Patience,
        by: Moment,
        retries: &mut Retries,
    ) -> Result<Joined> {
        let outcome = self.owned.join(patience, by, retries).await;
        self.is_answered = outcome.is_ok();
        outcome
    }

    /// Joins the line, or goes on with the join that another one has begun. Whoever gives up leaves it here.
    pub(crate) async fn join(&mut self, by: Moment, retries: &mut Retries) -> Result<Joined> {
        let outcome = self.joined(by, retries).await;
        if outcome.as_ref().is_ok_and(|outcome| !matches!(outcome, Joined::InVain)) {
            (self.join, self.is_answered) = (None, true);
        }
        outcome
    }

    async fn joined(&mut self, by: Moment, retries: &mut Retries) -> Result<Joined> {
        let Self { join, begins, owned, .. } = self;
        let begun = match join {
            Some(join) => match join.go_on(owned, || request(owned)) {
                Some(lost) => return Ok(lost),
                None => owned.live.clock.now(),
            },
            None => {
                *begins = true;
                let begun = Join::begin(owned, request(owned));
                *begins = false;
                match begun {
                    Begun::Answered(joined) => return Ok(joined),
                    Begun::UnderWay(begun) => join.insert(Box::new(begun)).asked(),
                }
            }
        };
        let Some(under_way) = join else { return Ok(Joined::Waiting) };
        // Boxed, so that a leader that is answered at once does not pay for all that can happen to the others.
        Box::pin(under_way.answer(owned, || request(owned), begun, by, retries)).await
    }
}

fn request(owned: &OwnedClaim) -> Request<'static> {
    let (live, entry) = (owned.live.clone(), owned.entry.clone());
    Box::pin(async move { live.session.join(&entry.claim, Patience::Wait).await })
}
