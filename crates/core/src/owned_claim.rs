//! A claim that leaves when it is dropped, however far it has come.

use std::future::poll_fn;
use std::sync::Arc;

use crate::backend::{Claim, Kept, Leave, Left, Moment};
use crate::deadline;
use crate::keeper::{Leaving, renewal_deadline};
use crate::live_session::LiveSession;
use crate::registry::{EarlyRenewal, Entry, Loss, Stage, Turn};
use crate::{Error, ErrorKind, Result, shield};

/// One claim of this client, and the duty to give it back.
#[derive(Debug)]
pub(crate) struct OwnedClaim {
    pub(crate) live: Arc<LiveSession>,
    pub(crate) entry: Arc<Entry>,
}

impl OwnedClaim {
    /// Enters a claim, unless its session is over. Nothing is sent.
    pub(crate) fn new(live: Arc<LiveSession>, claim: Claim, kept: Option<Kept>) -> Result<Self, Loss> {
        let entry = live.registry.enter(claim, kept)?;
        Ok(Self { live, entry })
    }

    /// The claim's turn, or its end; `None` if `by` comes first.
    pub(crate) async fn turn(&self, by: Moment) -> Option<Turn> {
        let by = if seeded!("patience_has_no_end") { Moment::NEVER } else { by };
        deadline::by(&self.live.clock, |_| by, poll_fn(|cx| self.entry.poll_turn(cx))).await
    }

    /// Renews a grant before it is handed out at `at`, if its deadline is nearly over because the answer came late or
    /// the store was away. It waits no longer than `by` and the time limit of a renewal. Returns why the claim is
    /// gone, if it is.
    pub(crate) async fn freshen(&self, at: Moment, by: Moment) -> Option<Loss> {
        match self.live.registry.is_nearly_over(&self.entry, at) {
            true => Box::pin(self.freshened(by)).await, // boxed because it is rare: see `Client::live_session`
            false => None,
        }
    }

    async fn freshened(&self, by: Moment) -> Option<Loss> {
        let (registry, clock) = (&self.live.registry, &self.live.clock);
        let renewed = async {
            loop {
                let next = registry.next_renewal(); // listens from now on
                registry.wake_ups.renew_early(EarlyRenewal::Short);
                shield::around(next).await;
                if self.entry.loss().is_some() || !registry.is_nearly_over(&self.entry, clock.now()) {
                    return;
                }
            }
        };
        let longest = renewal_deadline(&self.live.options, &*self.live.session);
        deadline::by(clock, |now| by.min(now + longest), renewed).await;
        self.loss()
    }

    /// Whether it can be handed out as it is: it holds, and has as much time left as a grant must have. Tells nobody.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        let is_short = self.entry.is_in_jeopardy() || self.live.registry.is_nearly_over(&self.entry, now);
        !is_short && now < self.entry.until() && self.entry.loss().is_none()
    }

    /// Why it cannot be trusted any more, if so. A claim that is lost by the clock stays lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_at(self.live.clock.now())
    }

    pub(crate) fn loss_at(&self, now: Moment) -> Option<Loss> {
        loss_at(&self.live, &self.entry, now)
    }

    /// Leaves, and waits for the store to confirm it.
    pub(crate) async fn release(&self) -> Result<()> {
        let lost = |loss: Loss| loss.error("the lock was lost before");
        let now = self.live.clock.now();
        if !seeded!("an_overdue_lock_is_released") {
            self.loss_at(now);
        }
        if self.entry.lose(Loss::Left).is_none() {
            return Err(lost(self.entry.loss().unwrap_or(Loss::NotInLine)));
        }
        let kept_until = self.entry.kept_until(); // nothing renews it from now on
        self.entry.is_over_at(now + self.live.claim_deadline());
        let mut leaving = Leaving::start(&self.live, &self.entry);
        if seeded!("a_claim_is_forgotten_before_its_leave") {
            self.live.registry.remove(self.entry.claim.id.number);
        }
        let left = match leaving.answer_at_once() {
            Some(left) => Ok(left),
            // Boxed, so that a release that is answered at once does not pay for it.
            None => {
                self.entry.leaves_slowly();
                Box::pin(self.live.ask_within(self.live.claim_deadline(), leaving.answer())).await
            }
        };
        if is_not_there(&left) {
            // No loss, if what took it out came after the release began.
            if self.live.registry.may_overtake_leaves() {
                return Err(overtaken("this Locks was closed"));
            }
            if self.live.clock.now() >= kept_until {
                return Err(overtaken("the lease ended"));
            }
        }
        match left? {
            Left::Held => Ok(()),
            Left::Waiting | Left::Absent => Err(lost(Loss::NotInLine)),
        }
    }

    /// Forgets a claim of which nothing is in the store. If an earlier join of it got no answer, this does nothing.
    pub(crate) fn forget(&self) {
        if self.entry.how_to_leave() == Leave::Done {
            self.live.registry.remove(self.entry.claim.id.number);
            self.entry.lose(Loss::Left);
        }
    }
}

impl Drop for OwnedClaim {
    fn drop(&mut self) {
        match self.entry.lose(Loss::Left) {
            Some(Stage::Waiting) if seeded!("a_cancelled_acquire_leaks") => {}
            Some(stage) => {
                if stage == Stage::Waiting {
                    self.live.registry.stop_waiting(self.entry.claim.id.number);
                }
                drop(Leaving::start(&self.live, &self.entry));
            }
            // Its leave was handled when it was lost. But a join that was still on its way may have arrived after
            // that leave; from now on no other join can.
            None if self.entry.loss() != Some(Loss::Left) && self.entry.how_to_leave() == Leave::Void => {
                drop(Leaving::start(&self.live, &self.entry));
            }
            None => {}
        }
    }
}

/// Why the claim cannot be trusted any more at `now`, if so. If its time is over, it is lost and given back.
pub(crate) fn loss_at(live: &LiveSession, entry: &Arc<Entry>, now: Moment) -> Option<Loss> {
    if entry.is_overdue(now, Entry::until) && entry.lose(entry.why_overdue(now)).is_some() {
        drop(Leaving::start(live, entry));
    }
    entry.loss()
}

/// Whether the store does not have the claim any more, or the session is over.
fn is_not_there(left: &Result<Left>) -> bool {
    match left {
        Ok(left) => *left == Left::Absent,
        Err(error) => error.kind() == ErrorKind::Lost,
    }
}

fn overtaken(by: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{by} while the release was on its way"))
}
