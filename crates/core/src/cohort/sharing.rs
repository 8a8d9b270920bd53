//! How the readers of this client come to share a claim.

use std::sync::Arc;

use super::heard::Heard;
use super::line::Cohort;
use super::turn::{Baton, Lead, News};
use super::waiting::Waiter;
use super::{Entered, Stood};
use crate::backend::{Clock, Moment};

impl Cohort<News> {
    /// Stands in this line, shares what is read, or leads while others still read.
    pub(super) fn enter(self: &Arc<Self>, reads: bool, clock: &Arc<dyn Clock>) -> Entered {
        let mut line = self.line.lock();
        if line.share.is_none() || line.first().is_some() {
            return Entered::Waits(line.stand(reads, &**clock), Stood(self.clone())); // behind those to whom the claim is just being shared out
        }
        let now = clock.now();
        let shared = if reads { line.share.as_mut().and_then(|share| share.next(now)) } else { None };
        match shared {
            Some((used, grant, ends)) => {
                Entered::Shares(Baton::of_share(self.clone(), line.turn, used, grant, ends))
            }
            None => {
                let has_to_wait = !reads && !line.has_lost_its_place(); // others still read
                let (turn, _ended) = line.begin_turn();
                drop(line);
                let heard = if has_to_wait { Heard::Wait } else { Heard::Nothing };
                Entered::Leads(Lead::of(self.clone(), turn, heard))
            }
        }
    }

    /// A share, if the claim is read and nobody waits.
    pub(super) fn try_share(self: &Arc<Self>, now: Moment) -> Option<Baton> {
        let mut line = self.line.lock();
        if line.first().is_some() {
            return None;
        }
        let (used, grant, ends) = line.share.as_mut()?.next(now)?;
        Some(Baton::of_share(self.clone(), line.turn, used, grant, ends))
    }

    /// Whether what is held leaves no room for this one, or one that has waited here comes before it.
    pub(super) fn excludes(&self, reads: bool) -> bool {
        let line = self.line.lock();
        match line.held {
            Some(_) => !(reads && line.share.is_some()),
            None => {
                let is_behind = line.led.reads.is_some_and(|leader_reads| !(leader_reads && reads));
                // After an outage nobody knows, and the store has to be asked. It is the same with a leader whose claim is
                // lost: it may not be polled, and then it does not stand in line for a long time.
                is_behind
                    && line.has_to_wait(0)
                    && line.led.neglected_since.is_none()
                    && !line.led.is_without_claim()
            }
        }
    }

    /// The claim is read: all readers at the front of the line share it, and whoever cannot leads at once.
    pub(super) fn share_out(self: &Arc<Self>, turn: u64, now: Moment) {
        while let Some((waiter, baton)) = self.next_share(turn, now) {
            drop(waiter.give(News::Passed(baton))); // unless it is gone
        }
        if self.has_any() {
            Lead::pass_on(self, turn, None);
        }
    }

    /// The first of the line and its share, if it reads and may share. In one step: the line may be over a moment later.
    fn next_share(self: &Arc<Self>, turn: u64, now: Moment) -> Option<(Arc<Waiter<News>>, Baton)> {
        let mut line = self.line.lock();
        if line.turn != turn || !line.first()?.reads {
            return None;
        }
        let (used, grant, ends) = line.share.as_mut()?.next(now)?;
        let waiter = line.waiting.pop_front()?;
        Some((waiter, Baton::of_share(self.clone(), turn, used, grant, ends)))
    }
}
