//! What the tasks of one process do without the store: who stands in its line for them, and to whom a hold is passed.

use super::{Item, Machine};
use crate::arrivals;
use crate::client::Doing;
use crate::cohort::{Cohort, Reason, Turn};
use crate::policy::Policy;
use crate::program::Op;
use crate::record::{Kind, Record};
use crate::settings::{Settings, Work};

impl Machine {
    /// The local lines of a run: one for each name in each process.
    pub(super) fn cohorts(settings: &Settings) -> Vec<Cohort> {
        let has_some = settings.policy == Policy::Cohort && settings.work != Work::Seats;
        let processes = usize::from(settings.process(settings.lanes() - 1)) + 1;
        vec![Cohort::default(); if has_some { processes * usize::from(settings.segments) } else { 0 }]
    }

    /// The local line in which this task stands for its lock; permits and reads have claims of their own.
    pub(super) fn cohort_of(&self, who: u16) -> Option<usize> {
        let segments = usize::from(self.settings.segments);
        let at = usize::from(self.settings.process(who)) * segments + self.segment(who);
        (at < self.cohorts.len() && !self.settings.reads_only(who)).then_some(at)
    }

    /// A task wants the lock. True: it waits behind others of its process, and asks nobody.
    pub(super) fn stands_in_local_line(&mut self, who: u16, record: &mut Record) -> bool {
        let Some(at) = self.cohort_of(who).filter(|at| self.cohorts[*at].leader != Some(who)) else {
            return false;
        };
        let now = self.now;
        let cohort = &mut self.cohorts[at];
        if cohort.waiting.is_empty() && cohort.wants_leader(now).is_some() {
            cohort.waiting.push(who);
            self.next_leads(at, record);
            return true;
        }
        let ahead = cohort.waiting.len() as u32;
        cohort.waiting.push(who);
        let cause = self.client(who).because;
        let event = self.note(Kind::Behind, who, ahead, 0, cause, record);
        let client = self.client_mut(who);
        client.because = event;
        client.waits_since.get_or_insert(now);
        client.claims[0] = 0; // what it had in a session that has ended
        client.doing = Doing::InLine;
        client.turn += 1;
        self.next_leads(at, record);
        self.shade(who, record);
        true
    }

    /// If somebody has to stand in the store's line for this local line, its next one does.
    pub(super) fn next_leads(&mut self, at: usize, record: &mut Record) {
        let Some(reason) = self.cohorts[at].wants_leader(self.now) else { return };
        let Some(who) = self.cohorts[at].next() else { return };
        self.cohorts[at].leader = Some(who);
        if reason != Reason::First || self.client(who).doing == Doing::InLine {
            let cause = self.client(who).because;
            let event = self.note(Kind::Leads, who, reason as u32, 0, cause, record);
            self.client_mut(who).because = event;
        }
        self.call(who, Op::Join(0), record);
    }

    /// A task gives its lock back, or waits no more. True: that is nobody's business outside its process.
    pub(super) fn gives_back_locally(&mut self, who: u16, record: &mut Record) -> bool {
        let Some(at) = self.cohort_of(who) else { return false };
        let (claim, now) = (self.client(who).claims[0], self.now);
        self.leaves_local_line(who);
        if claim == 0 {
            return true;
        }
        if self.cohorts[at].leader == Some(who) {
            return self.leaves_its_place(who, at, record);
        }
        let client = self.client(who);
        let may_trust = client.holds[0].is_some() && !client.knows_loss && now < client.trusted_until;
        let has_come = self.settings.is_crowd(who) && !client.is_last && self.behind_the_crowd(now) > 0;
        let cohort = &mut self.cohorts[at];
        let may_pass = may_trust && cohort.may_pass(claim, now);
        let next = if may_pass { cohort.next().or(has_come.then_some(who)) } else { None };
        match next {
            Some(next) => self.passes(who, next, at, record),
            None => self.ends_turn(who, record),
        }
        next.is_some()
    }

    /// The turn of this task's claim is over: the next one leads, if somebody waits.
    fn ends_turn(&mut self, who: u16, record: &mut Record) {
        let Some(at) = self.cohort_of(who) else { return };
        let claim = self.client(who).claims[0];
        if self.cohorts[at].turn.is_some_and(|turn| turn.claim == claim) {
            self.cohorts[at].turn = None;
            self.next_leads(at, record);
        }
    }

    /// The one that leads gives up: its claim, which waits, is the next one's. False: there is none.
    fn leaves_its_place(&mut self, who: u16, at: usize, record: &mut Record) -> bool {
        let next = self.cohorts[at].next();
        self.cohorts[at].leader = next;
        let Some(next) = next else { return false };
        let cause = self.client(who).because;
        let event = self.note(Kind::Leads, next, Reason::Inherits as u32, who.into(), cause, record);
        let trusted_until = self.client(who).trusted_until;
        let claim = std::mem::take(&mut self.client_mut(who).claims[0]);
        let client = self.client_mut(next);
        client.claims[0] = claim;
        client.trusted_until = trusted_until;
        client.because = event;
        self.start_polling(next);
        self.shade(next, record);
        true
    }

    fn passes(&mut self, from: u16, to: u16, at: usize, record: &mut Record) {
        let token = self.client(from).token() + 1;
        let cause = self.client(from).because;
        let event = self.note(Kind::Pass, from, token, to.into(), cause, record);
        self.counters.passes += 1;
        if let Some(turn) = &mut self.cohorts[at].turn {
            turn.passes += 1;
        }
        self.prepare(from, Op::Leave(0)); // it gives back as if it asked the store
        let client = self.client_mut(from);
        client.because = event;
        let (claim, trusted_until) = (std::mem::take(&mut client.claims[0]), client.trusted_until);
        if from == to {
            self.next_of_the_crowd(from);
        }
        let client = self.client_mut(to);
        client.claims[0] = claim;
        client.trusted_until = trusted_until;
        self.enters(to, 0, token, event, record);
        self.next_leads(at, record); // if that was the last pass
        self.shade(from, record);
    }

    /// The crowd's lane stands for the next one of it, who has waited since it came.
    fn next_of_the_crowd(&mut self, who: u16) {
        let join = self.program(who).retry;
        let came = arrivals::comes_at(&self.settings, self.client(who).rounds + 1);
        let client = self.client_mut(who);
        client.rounds += 1;
        client.pc = join;
        client.waits_since = Some(came);
        self.counters.rounds += 1;
    }

    /// The store has granted the claim with which this task leads: from now on the hold may be passed on.
    pub(super) fn begins_turn(&mut self, who: u16) {
        let Some(at) = self.cohort_of(who) else { return };
        if self.cohorts[at].leader != Some(who) {
            return;
        }
        let ends = self.now + self.client(who).by_its_clock(self.settings.linger);
        let turn = Turn { claim: self.client(who).claims[0], ends, passes: 0 };
        (self.cohorts[at].leader, self.cohorts[at].turn) = (None, Some(turn));
        if !self.is_scheduled() {
            self.push(ends, who, Item::Lingered(at as u16));
        }
    }

    /// A task waits no more. Nothing is passed to it from now on.
    pub(super) fn leaves_local_line(&mut self, who: u16) {
        if let Some(at) = self.cohort_of(who) {
            self.cohorts[at].waiting.retain(|waiter| *waiter != who);
        }
    }

    /// Every claim of this process is gone: its local lines begin anew.
    pub(super) fn forget_cohorts(&mut self, who: u16) {
        let segments = usize::from(self.settings.segments);
        let first = usize::from(self.settings.process(who)) * segments;
        for cohort in self.cohorts.iter_mut().skip(first).take(segments) {
            *cohort = Cohort::default();
        }
    }

    /// For whom news of this task's line are: who stands there for all.
    pub(super) fn stands_for(&self, who: u16) -> u16 {
        self.cohort_of(who).and_then(|at| self.cohorts[at].leader).unwrap_or(who)
    }
}
