//! A read claim that several readers of this client share.

use std::sync::{Arc, Weak};

use super::Entered;
use super::line::Cohort;
use super::turn::{Baton, Lead, News};
use super::waiting::Waiter;
use crate::backend::{Grant, Moment};
use crate::owned_claim::OwnedClaim;

/// How one more reader shares the claim.
pub(super) struct Share {
    owned: Weak<OwnedClaim>,
    /// The last grant.
    grant: Grant,
    /// From then on nobody else shares it.
    ends: Moment,
}

impl Share {
    pub(super) fn new(owned: &Arc<OwnedClaim>, grant: Grant, ends: Moment) -> Self {
        Self { owned: Arc::downgrade(owned), grant, ends }
    }

    /// The next grant, and when sharing ends; `None` if nobody else may share the claim.
    fn next(&mut self, now: Moment) -> Option<(Arc<OwnedClaim>, Grant, Moment)> {
        let owned = self.owned.upgrade().filter(|_| now < self.ends)?;
        let token = self.grant.token.next_pass()?;
        self.grant = Grant { token, ..self.grant };
        Some((owned, self.grant, self.ends))
    }
}

impl Cohort<News> {
    /// Stands in this line, shares what is read, or leads while others still read.
    pub(super) fn enter(self: &Arc<Self>, reads: bool, now: Moment) -> Entered {
        if let Some(baton) = self.try_share(reads, now) {
            return Entered::Shares(baton);
        }
        let mut line = self.line.lock();
        match line.share {
            None => Entered::Waits(line.stand(reads)),
            Some(_) => {
                let (turn, came) = (line.begin_turn(), line.came);
                drop(line);
                Entered::Leads(Lead::of(self.clone(), turn, came))
            }
        }
    }

    pub(super) fn try_share(self: &Arc<Self>, reads: bool, now: Moment) -> Option<Baton> {
        if !reads {
            return None;
        }
        let mut line = self.line.lock();
        let (owned, grant, ends) = line.share.as_mut()?.next(now)?;
        line.sharing += 1;
        let turn = line.turn;
        drop(line);
        Some(Baton::of_share(self.clone(), turn, owned, grant, ends))
    }

    /// Whether what is held leaves no room for this one.
    pub(super) fn excludes(&self, reads: bool) -> bool {
        let line = self.line.lock();
        line.held.is_some() && !(reads && line.share.is_some())
    }

    /// The claim is read: all readers at the front of the line share it, and whoever cannot leads at once.
    pub(super) fn share_out(self: &Arc<Self>, turn: u64, now: Moment) {
        while let Some(waiter) = self.next_reader(turn) {
            let Some(baton) = self.try_share(true, now) else {
                self.line.lock().waiting.push_front(waiter);
                break;
            };
            drop(waiter.give(News::Passed(baton))); // unless it is gone
        }
        if !self.line.lock().waiting.is_empty() {
            Lead::pass_on(self, turn, None);
        }
    }

    fn next_reader(&self, turn: u64) -> Option<Arc<Waiter<News>>> {
        let mut line = self.line.lock();
        if line.turn == turn { line.pop_if(true) } else { None }
    }
}
