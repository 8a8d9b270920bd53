//! A read claim that several readers of this client share.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::Entered;
use super::line::Cohort;
use super::turn::{Baton, Lead, News};
use super::waiting::Waiter;
use crate::backend::{Grant, Moment};
use crate::owned_claim::OwnedClaim;
use crate::sync::AtomicU64;

/// A claim and how many use it. One that nobody uses any more gets no other user, because the last one gives it back.
pub(super) struct Used {
    owned: OwnedClaim,
    users: AtomicU64,
}

impl Used {
    pub(super) fn by_one(owned: OwnedClaim) -> Arc<Self> {
        Arc::new(Self { owned, users: AtomicU64::new(1) })
    }

    /// One more uses it, if anybody does.
    fn join(&self) -> bool {
        let one_more = |users: u64| {
            let may = users > 0 || seeded!("a_share_is_taken_from_nobody");
            may.then_some(users + 1)
        };
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// One of its users gives it back. Returns whether that was the last one.
    pub(super) fn leave(&self) -> bool {
        let seen =
            if seeded!("each_leaves_it_to_the_other") { self.users.load(Ordering::Acquire) } else { 0 };
        let before = self.users.fetch_sub(1, Ordering::AcqRel);
        before.max(seen) == 1
    }
}

impl Deref for Used {
    type Target = OwnedClaim;

    fn deref(&self) -> &OwnedClaim {
        &self.owned
    }
}

/// How one more reader shares the claim.
pub(super) struct Share {
    used: Weak<Used>,
    /// The last grant.
    grant: Grant,
    /// From then on nobody else shares it.
    ends: Moment,
}

impl Share {
    pub(super) fn new(used: &Arc<Used>, grant: Grant, ends: Moment) -> Self {
        Self { used: Arc::downgrade(used), grant, ends }
    }

    /// The next grant, and when sharing ends; `None` if nobody else may share the claim.
    fn next(&mut self, now: Moment) -> Option<(Arc<Used>, Grant, Moment)> {
        if now >= self.ends && !seeded!("readers_share_after_the_linger") {
            return None;
        }
        let token = self.grant.token.next_pass()?;
        // Its last user ends the turn, and with it this, before it drops the claim: so that is not dropped here.
        let used = self.used.upgrade().filter(|used| used.join())?;
        self.grant = Grant { token, ..self.grant };
        Some((used, self.grant, self.ends))
    }
}

impl Cohort<News> {
    /// Stands in this line, shares what is read, or leads while others still read.
    pub(super) fn enter(self: &Arc<Self>, reads: bool, now: Moment) -> Entered {
        let mut line = self.line.lock();
        if line.share.is_none() || line.first().is_some() {
            return Entered::Waits(line.stand(reads)); // behind those to whom the claim is just being shared out
        }
        let shared = if reads { line.share.as_mut().and_then(|share| share.next(now)) } else { None };
        match shared {
            Some((used, grant, ends)) => {
                Entered::Shares(Baton::of_share(self.clone(), line.turn, used, grant, ends))
            }
            None => {
                let (turn, came) = (line.begin_turn(), line.came);
                drop(line);
                Entered::Leads(Lead::of(self.clone(), turn, came))
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
        let is_held = line.held.is_some() && !(reads && line.share.is_some());
        is_held || line.leads.is_some_and(|leader_reads| !(leader_reads && reads))
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
