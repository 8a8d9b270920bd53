//! The claims of one session, by number, and the waiting ones also by name; and which names are due for a look.
//!
//! One look at a time serves all waiters of a name. If a signal comes for a line during a look, another look follows.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

use super::departed::Departed;
use super::entry::Entry;
use super::scatter::Scatter;
use crate::backend::Moment;
use crate::{ClaimId, Name, SessionId};

/// Everything under the registry's lock.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<u64, Arc<Entry>, BuildHasherDefault<Scatter>>,
    waiting: HashMap<Name, Waiters>,
    due: BTreeSet<(Moment, Name)>,
    pub(super) departed: Departed,
}

/// The waiters of one name.
#[derive(Debug)]
struct Waiters {
    numbers: BTreeSet<u64>,
    look_at: Moment,
    /// The waiter that warnings are about, the waits that are worth its first and its next warning, and until when
    /// another warning would be a nuisance.
    warned_for: u64,
    warn_first: Duration,
    warn_after: Duration,
    quiet_until: Moment,
    /// Whether a look is under way, and whether another is to follow it.
    looking: bool,
    look_again: bool,
}

/// One look that is due.
pub(crate) struct DueLook {
    pub(crate) name: Name,
    pub(crate) waiting: Vec<ClaimId>,
    /// How long the first waiter has waited, if that is worth a warning.
    pub(crate) warn: Option<Duration>,
}

impl Table {
    /// Enters a waiter of `name`: a look is due at `at`, and a warning after `warn_after`. Returns when the next look
    /// is.
    pub(super) fn start_waiting(
        &mut self,
        name: &Name,
        number: u64,
        at: Moment,
        warn_after: Duration,
    ) -> Moment {
        let waiting = self.waiting.entry(name.clone()).or_insert_with(|| Waiters::new(warn_after));
        waiting.numbers.insert(number);
        let at = at.min(self.warn_at(name));
        self.look_by(name, at);
        at
    }

    /// A look at `name` has ended. The next one is due when `next` says for the first waiter, or at once if a signal
    /// came in the meantime. Returns when, if any claim still waits.
    pub(super) fn end_look(
        &mut self,
        name: &Name,
        now: Moment,
        next: impl FnOnce(u64) -> Moment,
    ) -> Option<Moment> {
        let waiting = self.waiting.get_mut(name)?;
        waiting.looking = false;
        let again = std::mem::take(&mut waiting.look_again);
        let Some(first) = waiting.numbers.first().copied() else {
            self.waiting.remove(name); // kept only while the look was under way
            return None;
        };
        let at = match again {
            true => now,
            false if seeded!("a_look_is_the_last") => Moment::NEVER,
            false => next(first).min(self.warn_at(name)),
        };
        self.look_by(name, at);
        Some(at)
    }

    /// When the wait of this name's first waiter becomes worth a warning.
    fn warn_at(&self, name: &Name) -> Moment {
        let waiting = self.waiting.get(name);
        let first = waiting.and_then(|waiting| self.entries.get(waiting.numbers.first()?).zip(Some(waiting)));
        first.map_or(Moment::NEVER, |(first, waiting)| {
            (first.since() + waiting.warn_after).max(waiting.quiet_until)
        })
    }

    /// Begins every look that is due.
    pub(super) fn begin_looks(&mut self, now: Moment, session: SessionId) -> Vec<DueLook> {
        let mut looks = Vec::new();
        while let Some((at, name)) = self.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, name.clone()));
            looks.extend(self.begin_look(name, now, session));
        }
        looks
    }

    /// When the first look is due.
    pub(super) fn first_look(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A signal for all lines came: look at every line with waiters.
    pub(super) fn look_everywhere(&mut self, now: Moment) {
        let names: Vec<_> = self.waiting.keys().cloned().collect();
        for name in &names {
            self.look_now(name, now);
        }
    }

    /// Removes these claims. No other one waits.
    pub(super) fn clear(&mut self, lost: &[Arc<Entry>]) {
        self.waiting.clear();
        self.due.clear();
        for entry in lost {
            self.entries.remove(&entry.claim.id.number);
            self.departs(entry);
        }
    }

    /// Removes a claim.
    pub(super) fn remove(&mut self, number: u64) -> Option<Arc<Entry>> {
        self.stop_waiting(number);
        let entry = self.entries.remove(&number)?;
        self.departs(&entry);
        Some(entry)
    }

    fn departs(&mut self, entry: &Entry) {
        if entry.may_be_granted() {
            self.departed.add(entry.claim.id.number, entry.claim.name.clone());
        } else if entry.has_left_slowly() {
            self.departed.add_holder(&entry.claim.name);
        }
    }

    /// A claim no longer waits, because it is held or gone.
    pub(super) fn stop_waiting(&mut self, number: u64) {
        if self.waiting.is_empty() {
            return; // the usual case, not worth two look-ups
        }
        let Some(entry) = self.entries.get(&number) else {
            return;
        };
        let name = &entry.claim.name;
        let Some(waiting) = self.waiting.get_mut(name) else {
            return;
        };
        waiting.numbers.remove(&number);
        if waiting.numbers.is_empty() && !waiting.looking {
            self.due.remove(&(waiting.look_at, name.clone()));
            self.waiting.remove(name);
        }
    }

    /// A signal for this line came: look at it now, and once more if a look is under way.
    pub(super) fn look_now(&mut self, name: &Name, now: Moment) {
        self.look_by(name, now);
        if let Some(waiting) = self.waiting.get_mut(name).filter(|waiting| waiting.looking) {
            waiting.look_again = !seeded!("a_hint_during_a_look_is_lost");
        }
    }

    /// Moves the next look at `name` forward to `at`. A look that is under way sets the next one itself.
    fn look_by(&mut self, name: &Name, at: Moment) {
        let Some(waiting) = self.waiting.get_mut(name) else {
            return;
        };
        if !waiting.looking && at < waiting.look_at {
            self.due.remove(&(waiting.look_at, name.clone()));
            waiting.look_at = at;
            self.due.insert((at, name.clone()));
        }
    }

    fn begin_look(&mut self, name: Name, now: Moment, session: SessionId) -> Option<DueLook> {
        let waiting = self.waiting.get_mut(&name)?;
        (waiting.looking, waiting.look_at) = (true, Moment::NEVER);
        let ids = waiting.numbers.iter().map(|&number| ClaimId { session, number }).collect();
        let first = waiting.numbers.first().and_then(|first| self.entries.get(first));
        let warn = first.and_then(|first| waiting.warn(first.claim.id.number, now.since(first.since()), now));
        Some(DueLook { name, waiting: ids, warn })
    }
}

impl Waiters {
    fn new(warn_after: Duration) -> Self {
        Self {
            numbers: BTreeSet::new(),
            look_at: Moment::NEVER,
            warned_for: 0,
            warn_first: warn_after,
            warn_after,
            quiet_until: Moment::START,
            looking: false,
            look_again: false,
        }
    }

    /// Whether a wait of this length is worth a warning now: the first time, and again each time it has doubled. A
    /// line that moves on gets no warning for each of its waiters.
    fn warn(&mut self, first: u64, waited: Duration, now: Moment) -> Option<Duration> {
        if self.warned_for != first {
            (self.warned_for, self.warn_after) = (first, self.warn_first);
        }
        if waited < self.warn_after || now < self.quiet_until {
            return None;
        }
        self.warn_after = waited * 2;
        self.quiet_until = now + self.warn_first;
        Some(waited)
    }
}
