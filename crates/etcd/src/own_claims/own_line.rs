//! A line in which we have a claim: what is known of it, and what is watched there.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::Event;
use tidelock_core::ClaimId;

use crate::line_view::LineView;

/// After so many watches of claims, one after the other, all of a line is watched.
const OFTEN: u32 = 6;
/// If no more clients stand in it: each of them gets every event.
const FEW: usize = 16;
/// After so many events it is looked at whether they are still so few.
const LOOKS_AGAIN: usize = 256;

/// With so many claims that have left since the last list, another list is read, which makes them forgotten.
const MOST_DEPARTED: usize = 1024;

/// A line in which we have a claim.
#[derive(Debug, Default)]
pub(super) struct OwnLine {
    pub(super) claims: BTreeSet<u64>,
    /// Those of them whose leave has not begun.
    pub(super) staying: BTreeSet<u64>,
    pub(super) waiting: BTreeSet<u64>,
    /// Where claims of ours have come to stand, in order. One that waits no more, or has moved, is passed over.
    pub(super) places: BTreeMap<u64, u64>,
    pub(super) copy: Option<LineCopy>,
}

/// What is known of a line, and what is watched in it.
#[derive(Debug)]
pub(super) struct LineCopy {
    /// What is watched, and the number of that watch.
    pub(super) aim: Option<(Aim, i64)>,
    /// How many claims were watched one after the other.
    pub(super) aims: u32,
    /// The line is passed on so fast, among so few, that all of it is watched.
    pub(super) is_busy: bool,
    /// How many events of it were taken in since it was last looked at how many it is passed on among.
    heard: usize,
    pub(super) view: LineView,
    /// The watch reports everything after this revision. None: it is not set at the moment.
    pub(super) since: Option<i64>,
    /// The claims ahead of our first waiter were looked at, one by one, at this revision.
    pub(super) checked: i64,
    /// The last revision at which, as was seen apart from lists, a claim left or became lighter. One of ours that stands
    /// behind it has its turn only if it was seen there at that revision, too: it may have been evicted before.
    pub(super) cleared: i64,
    /// The claim of ours for which the watch has fired, while it is not known whether it has its turn.
    pub(super) fired_for: Option<ClaimId>,
    /// The claim of ours that the watch is for.
    pub(super) first: Option<ClaimId>,
    /// The claim of ours for which those ahead are being looked at, one by one.
    pub(super) checking: Option<ClaimId>,
    /// Whether a read that will be taken in is under way.
    pub(super) is_reading: bool,
    pub(super) gap: Gap,
    /// Claims that have left, and at which revision: a list that is older must not bring them back.
    pub(super) departed: Vec<(ClaimId, i64)>,
    /// Events after a gap in the view, until a list closes it.
    pub(super) pending: Vec<Event>,
    pub(super) skip: usize,
    /// How many sweeps have found that no claim of ours waits there.
    pub(super) idle: u8,
}

/// What is done about the time between the view and the watch, if something may have happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    New,
    /// It is looked into if the watch reports nothing soon.
    Awaited,
    Due,
}

/// What is worth watching in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Everything that happens there.
    Line,
    /// This claim of another client.
    Claim(ClaimId),
}

impl OwnLine {
    pub(super) fn comes(&mut self, number: u64) {
        self.claims.insert(number);
        self.staying.insert(number);
        self.waiting.insert(number);
    }

    pub(super) fn is_gone(&mut self, number: u64) {
        self.claims.remove(&number);
        self.staying.remove(&number);
        self.waiting.remove(&number);
    }
}

impl LineCopy {
    pub(super) fn of(view: LineView, skip: usize) -> Self {
        let checked = view.revision;
        Self {
            aim: None,
            aims: 0,
            is_busy: false,
            heard: 0,
            view,
            since: None,
            checked,
            cleared: 0,
            fired_for: None,
            first: None,
            checking: None,
            is_reading: false,
            gap: Gap::New,
            departed: Vec::new(),
            pending: Vec::new(),
            skip,
            idle: 0,
        }
    }

    /// Whether the whole line is watched, and there is no gap between the view and the watch.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.aim, Some((Aim::Line, _)))
            && self.since.is_some_and(|since| self.view.revision >= since)
    }

    /// The revision up to which all that is watched is known. None: there may be a gap.
    pub(super) fn known(&self) -> Option<i64> {
        let since = self.since?;
        match self.aim? {
            (Aim::Line, _) => self.is_whole().then_some(self.view.revision),
            (Aim::Claim(_), _) => (self.checked >= since).then_some(self.checked),
        }
    }

    /// The watched claim has left, or has become lighter. The view shows the rest of the line as it was.
    pub(super) fn fired(&mut self, events: &[Event]) {
        let listed = self.view.revision;
        for event in events {
            let at = event.kv().map_or(listed, etcd_client::KeyValue::mod_revision);
            if at <= listed {
                continue; // a list has overtaken it
            }
            let left = self.view.happens(event, self.skip);
            self.departed.extend(left.map(|(id, _)| (id, at)));
            self.cleared = self.cleared.max(at);
            self.fired_for = self.first;
        }
    }

    /// The claim does not stand there at that revision.
    pub(super) fn departs(&mut self, id: ClaimId, at: i64) {
        if self.view.place(id).is_some_and(|order| order > at.unsigned_abs()) {
            return; // it came later
        }
        self.departed.push((id, at));
        if self.view.remove(id).is_some() {
            self.cleared = self.cleared.max(at);
        }
    }

    /// The claim is a reader at that revision.
    pub(super) fn lightens(&mut self, id: ClaimId, at: i64) {
        if self.view.lighten(id) {
            self.cleared = self.cleared.max(at);
        }
    }

    /// Whether a list is to be read only so that it can be forgotten who has left.
    pub(super) fn is_cluttered(&self) -> bool {
        self.departed.len() > MOST_DEPARTED && !self.is_reading
    }

    /// Whether a claim that was last seen in its place at that revision surely stood there when all ahead had left.
    pub(super) fn is_proved(&self, seen: i64) -> bool {
        seen.max(self.view.revision) >= self.cleared
    }

    pub(super) fn take_in(&mut self, events: &[Event]) -> Vec<(ClaimId, u64)> {
        let left = events.iter().filter_map(|event| self.view.happens(event, self.skip)).collect();
        let revisions = events.iter().filter_map(|event| event.kv().map(etcd_client::KeyValue::mod_revision));
        self.view.revision = revisions.fold(self.view.revision, i64::max);
        self.departed.retain(|(_, at)| *at > self.view.revision);
        self.heard += events.len();
        if self.is_busy && self.heard >= LOOKS_AGAIN {
            (self.is_busy, self.heard, self.aims) = (self.is_among_few(2 * FEW), 0, 0);
        }
        left
    }

    /// Another claim is watched, soon after the one before.
    pub(super) fn aims_again(&mut self) {
        self.aims += 1;
        if self.aims > OFTEN {
            (self.is_busy, self.aims) = (self.is_among_few(FEW), 0);
        }
    }

    fn is_among_few(&self, few: usize) -> bool {
        let mut sessions = BTreeSet::new();
        self.view.each().all(|(_, standing)| {
            sessions.insert(standing.id.session);
            sessions.len() <= few
        })
    }

    pub(super) fn list(&mut self, view: &LineView) {
        self.is_reading = false;
        if view.revision < self.view.revision {
            return;
        }
        if view.revision == self.view.revision {
            // It says nothing new, but was asked for, and would be again: what was seen since then is in the view.
            self.checked = self.checked.max(view.revision);
            self.departed.retain(|(_, at)| *at > view.revision);
            if self.cleared <= view.revision {
                self.fired_for = None;
            }
            return;
        }
        self.view = view.clone();
        self.departed.retain(|(_, at)| *at > view.revision);
        for (id, at) in &self.departed {
            if self.view.remove(*id).is_some() {
                self.cleared = self.cleared.max(*at);
            }
        }
        self.fired_for = None;
        // It may be older than what was looked at before, and show others ahead.
        self.checked = view.revision;
        if self.is_whole() {
            let pending = std::mem::take(&mut self.pending);
            self.take_in(&pending);
        }
    }
}
