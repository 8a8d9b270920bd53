//! A claim on its way out.
//!
//! The leave is under way as soon as this exists. Whoever wants to know may await the answer; whoever does not, or
//! gives up, drops it, and the keeper sees it through, as it does when nobody polls for long. Until the store has
//! confirmed it the registry still knows the claim, so that no renewal takes it for a stray and leaves in its place.

use std::future::poll_fn;
use std::sync::Arc;

use super::Errand;
use crate::deadline;
use crate::departure::GivenUp;
use crate::live::Live;
use crate::pledge::failed_inside;
use crate::shield::unharmed;
use crate::standing::Standing;
use crate::{Left, Reply, Result};

/// A leave under way.
pub(crate) struct Leaving<'a> {
    live: &'a Live,
    standing: &'a Arc<Standing>,
    /// Until it is polled for the first time; then the departure has it.
    reply: Option<Reply<Left>>,
    confirmed: bool,
}

impl<'a> Leaving<'a> {
    /// Sends the leave of a claim that is over for its user.
    pub(crate) fn start(live: &'a Live, standing: &'a Arc<Standing>) -> Self {
        let claim = &standing.claim;
        let mut reply: Option<Reply<Left>> = None;
        // It may be the user's panic that drops a guard: another one would end the process.
        unharmed(|| reply = Some(live.session.leave(&claim.name, claim.id, standing.how_to_leave())));
        let reply = reply.or_else(|| Some(Box::pin(std::future::ready(Err(failed_inside())))));
        Self { live, standing, reply, confirmed: false }
    }

    /// That it has left, where the store says so at once. Anything else is to be heard from [`Leaving::answer`].
    pub(crate) fn answer_at_once(&mut self) -> Option<Left> {
        match deadline::at_once(self.reply.as_mut()?.as_mut())? {
            Ok(left) => {
                self.reply = None;
                self.confirmed = true;
                Some(left)
            }
            Err(error) => {
                self.reply = Some(Box::pin(std::future::ready(Err(error))));
                None
            }
        }
    }

    /// The store's answer. After an error, and when this is dropped before it came, the keeper goes on.
    pub(crate) async fn answer(&mut self) -> Result<Left> {
        let answer = poll_fn(|cx| self.standing.departure.poll(self.reply.take(), cx)).await;
        self.confirmed = answer.is_ok();
        answer
    }

    fn reply(&mut self) -> GivenUp {
        match self.reply.take() {
            Some(reply) => GivenUp::Alone(Some(reply)),
            None => self.standing.departure.give_up(),
        }
    }

    fn hand_over(&self, reply: Option<Reply<Left>>) {
        // Without a keeper the session is closed, and took the claim along.
        let _ = self.live.keeper.send(Errand::SeeThrough { standing: self.standing.clone(), reply });
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.confirmed {
            self.live.registry.remove(self.standing.claim.id.number);
            return;
        }
        let GivenUp::Alone(mut reply) = self.reply() else {
            return;
        };
        let mut answer = None;
        unharmed(|| answer = reply.as_mut().and_then(|reply| deadline::at_once(reply.as_mut())));
        match answer {
            Some(Ok(_)) => drop(self.live.registry.remove(self.standing.claim.id.number)),
            Some(Err(_)) => self.hand_over(None),
            None => self.hand_over(reply),
        }
    }
}
