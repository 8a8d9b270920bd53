//! A claim on its way out.
//!
//! The leave is under way as soon as this exists. Whoever wants to know may await the answer; whoever does not, or
//! gives up, drops it, and the keeper sees it through. Until the store has confirmed it the registry still knows the
//! claim, so that no renewal takes it for a stray and leaves in its place.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::Errand;
use crate::deadline;
use crate::live::Live;
use crate::standing::Standing;
use crate::{Left, Reply, Result};

/// A leave under way.
pub(crate) struct Leaving<'a> {
    live: &'a Live,
    standing: &'a Arc<Standing>,
    /// `None` once it has failed, or is confirmed.
    reply: Option<Reply<Left>>,
    confirmed: bool,
}

impl<'a> Leaving<'a> {
    /// Sends the leave of a claim that is over for its user.
    pub(crate) fn start(live: &'a Live, standing: &'a Arc<Standing>) -> Self {
        let claim = &standing.claim;
        let reply = live.session.leave(&claim.name, claim.id, standing.how_to_leave());
        Self { live, standing, reply: Some(reply), confirmed: false }
    }

    /// The store's answer. After an error, and when this is dropped before it came, the keeper goes on.
    pub(crate) async fn answer(&mut self) -> Result<Left> {
        let answer = poll_fn(|cx| match &mut self.reply {
            Some(reply) => reply.as_mut().poll(cx),
            None => Poll::Ready(Ok(Left::Absent)),
        })
        .await;
        self.reply = None;
        self.confirmed = answer.is_ok();
        answer
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.reply.as_mut().and_then(|reply| deadline::at_once(reply.as_mut())) {
            self.reply = None;
            self.confirmed = answer.is_ok();
        }
        if self.confirmed {
            self.live.registry.remove(self.standing.claim.id.number);
        } else {
            let errand = Errand::SeeThrough { standing: self.standing.clone(), reply: self.reply.take() };
            // Without a keeper the session is closed, and took the claim along.
            let _ = self.live.keeper.send(errand);
        }
    }
}
