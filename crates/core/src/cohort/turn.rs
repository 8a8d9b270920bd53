//! A turn of a local line: first somebody leads, then the hold is passed along.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::heard::Heard;
use super::line::Cohort;
use super::share::{Share, Used};
use super::waiting::Waiter;
use crate::backend::{Grant, Moment};
use crate::owned_claim::OwnedClaim;
use crate::registry::{Followers, Loss};
use crate::retries::Retries;
use crate::standing::Standing;
use crate::{ClaimId, Error, Options};

/// The part of a command's longest time that each one tries who leads.
const LEAST_PART: u32 = 4;

/// The news for a task in a local line.
pub(crate) enum News {
    /// It stands in the store's line for all from now on.
    Leads(Lead),
    /// It holds.
    Passed(Baton),
    Failed(Error),
}

/// The duty of the first of a local line: to stand in the store's line for all. Who drops it hands it on, with the claim
/// that waits or still joins.
pub(crate) struct Lead {
    cohort: Arc<Cohort<News>>,
    turn: u64,
    /// Others are known to be ahead.
    is_behind: bool,
    /// Since when it waits for a word of the store; [`Moment::START`] if it does not.
    unanswered_since: Moment,
    /// The claim that stands in the store's line, or is on its way there. Boxed, because most of a crowd only waits.
    waits: Option<Box<Standing>>,
    is_handed_on: bool,
}

/// One leads, with the claim at hand. Whoever drops it has put that claim back, and told the line if it was away: the
/// silence before says nothing of the store.
pub(crate) struct Leading<'a> {
    lead: &'a mut Lead,
    pub(crate) waits: Option<Standing>,
    pub(crate) retries: &'a mut Retries,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        // Whoever goes on with a request that has panicked would panic, too.
        let is_sound = |waits: &Standing| !waits.has_panicked();
        self.lead.waits = self.waits.take().filter(is_sound).map(Box::new);
        if let Some(back) = self.retries.back_at {
            self.lead.cohort.was_away(self.lead.turn, back);
        }
    }
}

/// Those behind the one that leads: they are told how far its claim has come.
pub(crate) struct Behind {
    cohort: Arc<Cohort<News>>,
    turn: u64,
}

impl Behind {
    /// The store is about to be asked.
    pub(crate) fn asks(&self, now: Moment) {
        self.cohort.is_silent_from(self.turn, now);
    }

    /// A session is open, and the store is asked in it since then at the earliest.
    pub(crate) fn asks_anew(&self, since: Moment) {
        self.cohort.is_open_since(self.turn, since);
    }

    /// The store is about to be asked for this claim.
    pub(crate) fn is_led_with(&self, owned: &OwnedClaim) {
        self.cohort.is_led_with(self.turn, owned, false);
    }

    /// The store has it in line.
    pub(crate) fn is_answered(&self, owned: &OwnedClaim) {
        stands_with(&self.cohort, self.turn, owned);
    }
}

impl Lead {
    pub(crate) fn leading<'a>(&'a mut self, retries: &'a mut Retries) -> Leading<'a> {
        let waits = self.waits.take().map(|waits| *waits);
        Leading { lead: self, waits, retries }
    }

    pub(crate) fn behind(&self) -> Behind {
        Behind { cohort: self.cohort.clone(), turn: self.turn }
    }

    pub(super) fn first_of(cohort: Arc<Cohort<News>>) -> Self {
        Self::of(cohort, 0, Heard::Nothing)
    }

    pub(super) const fn of(cohort: Arc<Cohort<News>>, turn: u64, heard: Heard) -> Self {
        // Apart, because they need less room so.
        let (is_behind, unanswered_since) = match heard {
            Heard::Nothing => (false, Moment::START),
            Heard::NothingSince(since) => (false, since),
            Heard::Wait => (true, Moment::START),
            Heard::WaitAndNothingSince(since) => (true, since),
        };
        Self { cohort, turn, is_behind, unanswered_since, waits: None, is_handed_on: false }
    }

    /// The claim holds.
    pub(crate) fn holds(mut self, owned: OwnedClaim, grant: Grant, reads: bool) -> Baton {
        self.is_handed_on = true;
        Baton::begin(self.cohort.clone(), self.turn, owned, grant, reads)
    }

    /// How long it tries. If it has waited for a word of the store behind others, it has what is left of the time that it
    /// would have had alone, and what is left of a part of a command's longest time in any case: the store may answer
    /// slowly.
    pub(crate) fn retries(&self, now: Moment, options: &Options) -> Retries {
        let (since, longest) = (self.unanswered_since, options.command_deadline);
        if since == Moment::START {
            return Retries::with_full_time(self.is_behind);
        }
        let give_up = (since + longest).max(self.cohort.grace(now, longest / LEAST_PART));
        Retries::until(since, give_up, give_up.max(since + options.connect_deadline), self.is_behind)
    }

    /// The store has said nothing since then. That is told to the others as [`Lead::fails`] does, unless it was for another
    /// reason.
    pub(crate) fn fails_in_silence(self, error: &Error, since: Moment) {
        if self.cohort.counts_since(since) {
            self.fails(error, since);
        }
    }

    /// The store has not served it. Those that have waited for a word of the store since then hear the same; of the
    /// others the next one leads.
    pub(crate) fn fails(self, error: &Error, since: Moment) {
        turn_away(self.cohort.take_first(self.turn, since), error);
    }

    /// The turn is over: the next of the local line leads. A claim that waits or still joins is of use to who wants the
    /// same; otherwise it leaves.
    pub(super) fn pass_on(cohort: &Arc<Cohort<News>>, turn: u64, waits: Option<Box<Standing>>) {
        let (mut turn, mut waits) = (turn, waits);
        while let Some((next_turn, waiter)) = cohort.next_turn(turn) {
            let mut lead = Self::of(cohort.clone(), next_turn, cohort.heard_by(&waiter));
            let is_of_use = waits.as_ref().is_some_and(|waits| waits.owned.entry.reads() == waiter.reads);
            let is_lost = seeded!("a_join_is_not_left_to_the_next")
                && waits.as_ref().is_some_and(|waits| !waits.is_answered());
            if is_of_use && !is_lost && !seeded!("a_waiting_claim_is_not_left_to_the_next") {
                lead.waits = waits.take();
            }
            match lead.waits.as_ref().filter(|waits| waits.owned.entry.loss().is_none()) {
                Some(waits) if waits.is_answered() => stands_with(cohort, next_turn, &waits.owned),
                Some(waits) => cohort.is_led_with(next_turn, &waits.owned, false),
                None => {}
            }
            match waiter.give(News::Leads(lead)) {
                Some(News::Leads(mut refused)) => {
                    refused.is_handed_on = true;
                    (turn, waits) = (next_turn, refused.waits.take().or(waits));
                }
                _ => return,
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.is_handed_on && !seeded!("a_leader_that_fails_strands_the_line") {
            if let Some(waits) = &self.waits {
                self.cohort.goes(self.turn, waits.owned.live.clock.now());
            }
            Self::pass_on(&self.cohort, self.turn, self.waits.take());
        }
    }
}

/// A hold that is passed along a local line. Whoever drops it passes it on, or ends the turn.
pub(crate) struct Baton {
    cohort: Arc<Cohort<News>>,
    turn: u64,
    /// The claim, which leaves when nobody has it any more.
    used: Arc<Used>,
    pub(crate) grant: Grant,
    /// From then on it is not passed on.
    ends: Moment,
    /// Whether other readers may share it.
    reads: bool,
    is_given: bool,
}

impl Baton {
    pub(super) fn begin(
        cohort: Arc<Cohort<News>>,
        turn: u64,
        owned: OwnedClaim,
        grant: Grant,
        reads: bool,
    ) -> Self {
        let linger = cohort.all.upgrade().map_or(Duration::ZERO, |all| all.linger);
        // Since this process heard of the grant: its task may have been polled long after.
        let ends = owned.entry.held_since() + linger;
        let used = Used::by_one(owned);
        cohort.is_held_by(&used, turn, ends, reads.then(|| Share::new(&used, grant, ends)));
        let baton = Self { cohort, turn, used, grant, ends, reads, is_given: false };
        match is_lost(&baton.cohort, &baton) {
            true => {} // the turn is over
            false if reads => baton.cohort.share_out(turn, baton.used.live.clock.now()),
            false => baton.cohort.watch(&baton.used.live.clock),
        }
        baton
    }

    /// One more reader of a claim. It may be lost already, and its longest hold has begun with the first reader.
    pub(super) const fn of_share(
        cohort: Arc<Cohort<News>>,
        turn: u64,
        used: Arc<Used>,
        grant: Grant,
        ends: Moment,
    ) -> Self {
        Self { cohort, turn, used, grant, ends, reads: true, is_given: false }
    }

    /// A writer is about to become a reader. From now on no writer gets its hold: others may read already.
    pub(crate) fn writes_no_more(&mut self) {
        self.reads = !seeded!("a_dropped_downgrade_is_passed_on");
    }

    /// It is a reader, so others may share its claim.
    pub(crate) fn now_reads(&mut self) {
        let now = self.used.live.clock.now();
        self.reads = true;
        let share = Share::new(&self.used, self.grant, self.ends);
        self.cohort.is_held_by(&self.used, self.turn, self.ends, Some(share));
        is_lost(&self.cohort, &self.used);
        self.cohort.share_out(self.turn, now);
    }

    /// It is passed on no more: the next of the local line leads at once, as when the linger is over.
    pub(crate) fn ends_its_turn(&mut self) {
        self.ends = Moment::START;
        Lead::pass_on(&self.cohort, self.turn, None);
    }

    /// How often the hold was passed on before.
    pub(crate) const fn pass(&self) -> u32 {
        self.grant.token.pass()
    }

    /// Gives the hold to the next of the local line. Returns whether others of this client hold the claim now.
    pub(crate) fn pass_on(&mut self) -> bool {
        if std::mem::replace(&mut self.is_given, true) {
            return false;
        }
        self.used.entry.end_pass(self.pass());
        if self.reads {
            let is_held = self.used.loss().is_none(); // asked before: a moment later another one may be the last
            let is_last = self.used.leave();
            if is_last {
                Lead::pass_on(&self.cohort, self.turn, None);
            }
            return !is_last && is_held;
        }
        let is_passed = self.pass_to_next();
        if !is_passed {
            Lead::pass_on(&self.cohort, self.turn, None);
        }
        is_passed
    }

    fn pass_to_next(&self) -> bool {
        let now = self.used.live.clock.now();
        if now >= self.ends && !seeded!("a_linger_never_ends") {
            return false;
        }
        if !self.used.is_fresh(now) {
            return false;
        }
        let Some(mut token) = self.grant.token.next_pass() else { return false };
        if seeded!("a_pass_keeps_its_token") {
            token = self.grant.token;
        }
        while self.cohort.has_waiting()
            && self.used.live.registry.pass_on(&self.used.entry, now)
            && let Some(waiter) = self.cohort.next_in(self.turn)
        {
            match waiter.give(News::Passed(self.next(Grant { token, ..self.grant }))) {
                Some(News::Passed(mut refused)) => refused.is_given = true,
                _ => {
                    if token.next_pass().is_none() {
                        Lead::pass_on(&self.cohort, self.turn, None); // nobody gets it after that one
                    }
                    return true;
                }
            }
        }
        false
    }

    fn next(&self, grant: Grant) -> Self {
        let Self { cohort, turn, used, ends, .. } = self;
        let (cohort, used) = (cohort.clone(), used.clone());
        Self { cohort, turn: *turn, used, grant, ends: *ends, reads: false, is_given: false }
    }
}

impl Deref for Baton {
    type Target = OwnedClaim;

    fn deref(&self) -> &OwnedClaim {
        &self.used
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        self.pass_on();
    }
}

impl Followers for Cohort<News> {
    fn are_without(self: Arc<Self>, claim: ClaimId, loss: Loss) {
        let turn = {
            let mut line = self.line.lock();
            line.is_without(claim, loss);
            if line.held != Some(claim) {
                return; // its leader hears of it, and stands in line anew
            }
            line.turn
        };
        Lead::pass_on(&self, turn, None);
    }
}

/// Who leads in this turn has this claim, and the store has it in line.
fn stands_with(cohort: &Arc<Cohort<News>>, turn: u64, owned: &OwnedClaim) {
    cohort.is_led_with(turn, owned, true);
    is_lost(cohort, owned);
}

/// The line, which knows of this claim, is told at once when it is lost. Returns whether it is: perhaps it was lost before
/// the line could be told.
fn is_lost(cohort: &Arc<Cohort<News>>, owned: &OwnedClaim) -> bool {
    let followers: Weak<Cohort<News>> = Arc::downgrade(cohort);
    owned.entry.leads(followers);
    let loss = owned.entry.loss();
    if let Some(loss) = loss {
        cohort.clone().are_without(owned.entry.claim.id, loss);
    }
    loss.is_some()
}

/// These hear this error.
pub(super) fn turn_away(waiting: impl IntoIterator<Item = Arc<Waiter<News>>>, error: &Error) {
    for waiter in waiting {
        drop(waiter.give(News::Failed(error.clone()))); // gone already
    }
}
