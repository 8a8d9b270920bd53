//! Alarms: which tasks want to be woken, and when.
//!
//! A clock keeps one list of alarms, ordered by their moments, and rings those that are due. A [`Sleep`] is one entry
//! of that list; dropping it removes the entry. Nothing here depends on an async runtime, so a wait works wherever a
//! future is polled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::moment::Moment;
use crate::shield;

/// The alarms of one clock.
#[derive(Debug, Default)]
pub struct Alarms {
    list: Mutex<List>,
    /// Notified when the first alarm has changed, and when the last rung alarm was seen.
    changed: Condvar,
    /// Notified when an alarm is set that is due before the end of a `sleep`.
    roused: Condvar,
}

#[derive(Debug, Default)]
struct List {
    alarms: BTreeMap<(Moment, u64), Waker>,
    next_number: u64,
    /// Until when the thread that drives the clock sleeps.
    sleeps_until: Option<Moment>,
    /// Alarms that have rung, and whose owner has not dropped them yet: it is still busy with the work that was due.
    unseen: BTreeSet<(Moment, u64)>,
}

impl Alarms {
    /// When the first alarm is due.
    #[must_use]
    pub fn first(&self) -> Option<Moment> {
        self.list().alarms.keys().next().map(|(at, _)| *at)
    }

    /// Wakes the tasks whose alarms are due at `now`.
    pub fn ring(&self, now: Moment) {
        let mut list = self.list();
        let later = list.alarms.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut list.alarms, later);
        list.unseen.extend(due.keys());
        drop(list); // a waker may run any code, and that code may set an alarm
        due.into_values().for_each(shield::wake);
    }

    /// Blocks until the first alarm has changed, or for the time that `rest` returns for the current first alarm.
    pub fn wait(&self, rest: impl FnOnce(Option<Moment>) -> Option<Duration>) {
        let list = self.list();
        let first = list.alarms.keys().next().copied();
        let unchanged = |list: &mut List| list.alarms.keys().next().copied() == first;
        match rest(first.map(|(at, _)| at)) {
            Some(longest) => drop(self.changed.wait_timeout_while(list, longest, unchanged)),
            None => drop(self.changed.wait_while(list, unchanged)),
        }
    }

    /// Blocks until the first alarm is due, or `longest` has passed since `now`. An alarm that is set for later than
    /// that does not interrupt it.
    #[cfg(not(tidelock_simulation))]
    pub(crate) fn sleep(&self, now: Moment, longest: Duration) {
        let mut list = self.list();
        let first = list.alarms.keys().next().map(|(at, _)| *at);
        let until = first.map_or(Moment::NEVER, |first| first.min(now + longest));
        list.sleeps_until = Some(until);
        let undisturbed = |list: &mut List| list.sleeps_until.is_some();
        let mut list = match first {
            Some(_) => {
                let rest = self.roused.wait_timeout_while(list, until.since(now), undisturbed);
                rest.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.roused.wait_while(list, undisturbed).unwrap_or_else(PoisonError::into_inner),
        };
        list.sleeps_until = None;
    }

    /// Blocks until all tasks that were woken have dealt with their alarms, for `longest` at most. Returns whether
    /// they have. Those that have not are not waited for again.
    pub fn wait_until_seen(&self, longest: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.list(), longest, |list| !list.unseen.is_empty());
        let (mut list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut list.unseen).is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, at: Moment, waker: Waker) -> (Moment, u64) {
        let mut list = self.list();
        let key = (at, list.next_number);
        list.next_number += 1;
        list.alarms.insert(key, waker);
        if list.alarms.keys().next() == Some(&key) {
            self.changed.notify_all();
        }
        if list.sleeps_until.is_some_and(|until| at < until) {
            list.sleeps_until = None;
            self.roused.notify_all();
        }
        key
    }

    pub(crate) fn reset(&self, key: (Moment, u64), waker: &Waker) {
        let waker = waker.clone();
        let before = self.list().alarms.get_mut(&key).map(|old| std::mem::replace(old, waker));
        drop(before); // may be the last handle of a task, which may hold another alarm of this list
    }

    pub(crate) fn clear(&self, key: (Moment, u64)) {
        let mut list = self.list();
        let before = list.alarms.remove(&key);
        if before.is_none() {
            list.unseen.remove(&key);
            self.changed.notify_all();
        }
        drop(list);
        drop(before); // as above
    }
}
