//! A claim on its way out.
//!
//! The leave is on its way as soon as this exists. A caller that wants the answer awaits it. A caller that does not,
//! or gives up, drops this, and the keeper sees the leave through; it also does so when the answer has not been
//! polled for long. The registry knows the claim until the store has confirmed the leave, so that a renewal does not
//! take it for a stray and leave in its place.

use std::future::poll_fn;
use std::sync::Arc;

use super::request::Request;
use crate::Result;
use crate::at_once::at_once;
use crate::backend::{Left, Reply};
use crate::live_session::LiveSession;
use crate::registry::Entry;
use crate::shared_leave::GivenUp;
use crate::shared_task::failed_inside;
use crate::shield::unharmed;

/// A leave under way.
pub(crate) struct Leaving<'a> {
    live: &'a LiveSession,
    entry: &'a Arc<Entry>,
    /// Until its first poll; after that the shared leave has it.
    reply: Option<Reply<Left>>,
    confirmed: bool,
}

impl<'a> Leaving<'a> {
    /// Sends the leave of a claim that its user has finished with.
    pub(crate) fn start(live: &'a LiveSession, entry: &'a Arc<Entry>) -> Self {
        let claim = &entry.claim;
        let mut reply: Option<Reply<Left>> = None;
        // A panic of the user may be what drops the guard; a second panic would abort the process.
        unharmed(|| reply = Some(live.session.leave(&claim.name, claim.id, entry.how_to_leave())));
        let reply = reply.or_else(|| Some(Box::pin(std::future::ready(Err(failed_inside())))));
        Self { live, entry, reply, confirmed: false }
    }

    /// The store's answer if it comes at once and is not an error. In all other cases use [`Leaving::answer`].
    pub(crate) fn answer_at_once(&mut self) -> Option<Left> {
        match at_once(self.reply.as_mut()?.as_mut())? {
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

    /// The store's answer. After an error, or if this is dropped before the answer, the keeper goes on.
    pub(crate) async fn answer(&mut self) -> Result<Left> {
        let answer = poll_fn(|cx| self.entry.leave.poll(self.reply.take(), cx)).await;
        self.confirmed = answer.is_ok();
        answer
    }

    fn reply(&mut self) -> GivenUp {
        match self.reply.take() {
            Some(reply) => GivenUp::Alone(Some(reply)),
            None => self.entry.leave.give_up(),
        }
    }

    fn hand_over(&self, reply: Option<Reply<Left>>) {
        // No keeper means that the session is closed, and the claim with it.
        let _ = self.live.keeper.send(Request::SeeThrough { entry: self.entry.clone(), reply });
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.confirmed {
            self.live.registry.remove(self.entry.claim.id.number);
            return;
        }
        let GivenUp::Alone(mut reply) = self.reply() else {
            return;
        };
        let mut answer = None;
        unharmed(|| answer = reply.as_mut().and_then(|reply| at_once(reply.as_mut())));
        match answer {
            Some(Ok(_)) => drop(self.live.registry.remove(self.entry.claim.id.number)),
            Some(Err(_)) => self.hand_over(None),
            None => self.hand_over(reply),
        }
    }
}
