//! What a client knows of its own claims: which joins were never sent, which are void, and which claims wait.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimId, Name, SessionId};

use crate::answers::{Busy, Slot};
use crate::packet::Hint;

/// How many names of each kind are remembered. More are only slower.
const HINTS: usize = 10_000;
/// How many names a renewal asks about beside those that core names.
const DOUBTFUL: usize = 1_000;
/// For how long a name that we have left counts as free: as long as tasks that use it again and again need. The text that
/// only takes what is free is much cheaper than one that can also wait; if another client was faster, it costs a second
/// round trip.
const FREE: Duration = Duration::from_micros(500);
/// For how long a name counts as free that a transaction of ours has got.
const LATER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct OwnClaims {
    session: SessionId,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Claims with a join that is queued, and perhaps is not wanted any more.
    queued: HashSet<u64>,
    /// Claims with a join that was sent, until they have left; and until when another one may be queued behind that.
    sent: HashMap<u64, Moment>,
    /// Of how many requests to join it is not known what became of them, by claim, and their names.
    unanswered: HashMap<u64, (Name, u32)>,
    /// How many of them may still be sent.
    under_way: HashMap<u64, u32>,
    /// Claims that must not join any more, and until when that has to be known.
    void: HashMap<u64, Moment>,
    waiting: HashMap<u64, Name>,
    bell: Bell,
    /// The slots of claims that were taken for a transaction.
    slots: HashMap<u64, Slot>,
    /// Claims that are inside a transaction of the user.
    inside: HashSet<u64>,
    /// Those of them that are free when that transaction has ended.
    ending: HashMap<u64, Name>,
    /// Whether a task watches for that.
    watches_transactions: bool,
    /// Whether the client is closed, so that nothing watches any more.
    is_closed: bool,
    /// Where the claims of names with waiters were when they were last seen.
    busy: HashMap<Name, Busy>,
    /// Names that nobody holds, probably, and until when to believe it.
    free: HashMap<Name, Instant>,
    /// Leaves that were not confirmed, and until when the server could still have their claims.
    leaving: HashMap<ClaimId, (Name, Moment)>,
}

/// How far the watcher has heard the bell.
#[derive(Debug, Default)]
struct Bell {
    /// Of so many rings it was reported what they told of the claims that waited.
    heard: u64,
    /// While it is being read what rang: the claims that began to wait since it was asked, and how often the bell had
    /// rung when they joined.
    since: Option<Vec<(u64, u64)>>,
}

impl OwnClaims {
    pub(crate) fn of(session: SessionId) -> Self {
        Self { session, known: Mutex::default() }
    }

    pub(crate) fn queue(&self, number: u64) {
        self.known().queued.insert(number);
    }

    /// Whether this join may be sent: it is not void. From here on it counts as sent. It is repeated until then at most.
    pub(crate) fn sends(&self, number: u64, name: &Name, until: Moment) -> bool {
        let mut known = self.known();
        known.queued.remove(&number);
        let sends = !known.void.contains_key(&number);
        if sends {
            known.sent.entry(number).or_insert(until);
            known.unanswered.entry(number).or_insert_with(|| (name.clone(), 0)).1 += 1;
            *known.under_way.entry(number).or_default() += 1;
        }
        sends
    }

    /// Requests to join these are not sent any more, whether they were or not.
    pub(crate) fn are_under_way_no_more(&self, numbers: &[u64]) {
        let mut known = self.known();
        for number in numbers {
            if let Some(under_way) = known.under_way.get_mut(number) {
                *under_way -= 1;
                if *under_way == 0 {
                    known.under_way.remove(number);
                }
            }
        }
    }

    /// A request to join was answered, and its connection carried it once.
    pub(crate) fn is_answered(&self, number: u64) {
        let mut known = self.known();
        if let Some((_, unanswered)) = known.unanswered.get_mut(&number) {
            *unanswered -= 1;
            if *unanswered == 0 {
                known.unanswered.remove(&number);
            }
        }
    }

    /// The claim does not stand, and its caller makes no other request. If all of them were answered, nothing can come late:
    /// a client whose tries are refused by the thousand has nothing to remember.
    pub(crate) fn is_refused(&self, number: u64) {
        let mut known = self.known();
        if !known.unanswered.contains_key(&number) {
            known.sent.remove(&number);
        }
    }

    /// A join that was about to be sent is queued again.
    pub(crate) fn is_not_sent(&self, number: u64) {
        self.is_answered(number);
        self.queue(number);
    }

    /// Whether no request to join can arrive any more: each was answered.
    pub(crate) fn cannot_join_late(&self, number: u64) -> bool {
        !self.known().unanswered.contains_key(&number)
    }

    /// The claim is void from now on. Whether the server need not hear of it, because none of its joins was ever sent.
    pub(crate) fn make_void(&self, number: u64, until: Moment) -> bool {
        let mut known = self.known();
        known.void.insert(number, until);
        known.waiting.remove(&number);
        // One that was answered may be followed by one that never is sent, because nobody waits for that any more.
        let is_sent = known.sent.contains_key(&number) || known.unanswered.contains_key(&number);
        known.queued.remove(&number) && !is_sent
    }

    pub(crate) fn is_void(&self, number: u64) -> bool {
        self.known().void.contains_key(&number)
    }

    /// The claim waits; when it joined, the bell had rung so often. Whether it may have been granted already: a ring
    /// was heard that may have told of it, and nobody knew that it waits.
    pub(crate) fn waits(&self, number: u64, name: &Name, rung: u64) -> bool {
        let mut known = self.known();
        if known.void.contains_key(&number) {
            return false;
        }
        known.waiting.insert(number, name.clone());
        if let Some(since) = &mut known.bell.since {
            since.push((number, rung));
        }
        known.bell.heard > rung
    }

    /// How many rings were heard.
    pub(crate) fn heard(&self) -> u64 {
        self.known().bell.heard
    }

    /// It is going to be read which claims the bell has told of. Returns the names on which claims wait.
    pub(crate) fn hears(&self) -> Vec<Name> {
        let mut known = self.known();
        known.bell.since = Some(Vec::new());
        let names: BTreeSet<&Name> = known.waiting.values().collect();
        names.into_iter().cloned().collect()
    }

    /// So many rings were heard. Returns the names of claims that they may have told of, and that nobody asked for.
    pub(crate) fn has_heard(&self, rung: u64) -> Vec<Name> {
        let mut known = self.known();
        known.bell.heard = known.bell.heard.max(rung);
        let since = known.bell.since.take().unwrap_or_default();
        let missed = since.iter().filter(|(_, joined)| *joined < rung);
        missed.filter_map(|(number, _)| known.waiting.get(number)).cloned().collect()
    }

    /// The claim is about to go inside a transaction, unless it is leaving. From now on no leave of it is sent before that
    /// transaction has ended.
    pub(crate) fn goes_inside(&self, number: u64) -> bool {
        let mut known = self.known();
        let is_leaving = known.leaving.contains_key(&ClaimId { session: self.session, number });
        if !is_leaving {
            known.inside.insert(number);
        }
        !is_leaving
    }

    /// It did not get there. If it is to leave meanwhile, it does so as after a rollback.
    pub(crate) fn is_not_inside(&self, number: u64) {
        let mut known = self.known();
        if !known.ending.contains_key(&number) {
            known.inside.remove(&number);
        }
    }

    /// Its transaction has ended, and it has left.
    pub(crate) fn is_outside(&self, number: u64) {
        let mut known = self.known();
        known.inside.remove(&number);
        known.ending.remove(&number);
    }

    pub(crate) fn set_slot(&self, number: u64, slot: Slot) {
        self.known().slots.insert(number, slot);
    }

    /// The slot of a claim, if it has one. It is told once.
    pub(crate) fn slot(&self, number: u64) -> Option<Slot> {
        self.known().slots.remove(&number)
    }

    /// The claim is free when its transaction has ended. Whether nobody watches for that yet: now the caller has to.
    pub(crate) fn ends_with_its_transaction(&self, number: u64, name: &Name) -> bool {
        let mut known = self.known();
        if known.is_closed {
            return false;
        }
        // A later one may be a guess of core, which forgets what left with its guard.
        known.ending.entry(number).or_insert_with(|| name.clone());
        !std::mem::replace(&mut known.watches_transactions, true)
    }

    /// Whether no transaction is left to watch. Then the next one needs somebody who watches again.
    pub(crate) fn watches_no_more(&self) -> bool {
        let mut known = self.known();
        known.watches_transactions = !known.ending.is_empty();
        !known.watches_transactions
    }

    /// The claims that are free when their transactions have ended.
    pub(crate) fn ending(&self) -> Vec<(u64, Name)> {
        self.known().ending.iter().map(|(number, name)| (*number, name.clone())).collect()
    }

    /// The client is closed. Others find out when these transactions have ended.
    pub(crate) fn waits_for_no_transaction(&self) {
        let mut known = self.known();
        known.ending.clear();
        known.is_closed = true;
    }

    pub(crate) fn is_inside(&self, number: u64) -> bool {
        self.known().inside.contains(&number)
    }

    /// The claim does not wait any more. Whether it did.
    pub(crate) fn waits_no_more(&self, number: u64) -> bool {
        self.known().waiting.remove(&number).is_some()
    }

    /// Whether this claim may wait. It may have been granted since.
    pub(crate) fn may_wait(&self, number: u64) -> bool {
        let known = self.known();
        known.waiting.contains_key(&number) || known.void.contains_key(&number)
    }

    /// The names on which claims of ours may wait in the row of the line, although nobody names them any more: a join was
    /// not answered, or a server is in use that has missed a leave.
    pub(crate) fn doubtful(&self) -> Vec<Name> {
        let known = self.known();
        let in_row = known.busy.iter().filter(|(_, busy)| **busy == Busy::InRow).map(|(name, _)| name);
        known.unanswered.values().map(|(name, _)| name).chain(in_row).take(DOUBTFUL).cloned().collect()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.known().waiting.is_empty()
    }

    /// What is known of this name.
    pub(crate) fn hint(&self, name: &Name) -> Hint {
        let known = self.known();
        match known.busy.get(name) {
            Some(Busy::InRow) => Hint::InRow,
            Some(Busy::InRows(kind)) => Hint::InRows(*kind),
            None if known.free.get(name).is_some_and(|until| Instant::now() < *until) => Hint::Free,
            None => Hint::Unknown,
        }
    }

    /// `busy`: where the claims of this name are, if there may be several.
    pub(crate) fn set_busy(&self, name: &Name, busy: Option<Busy>) {
        let mut known = self.known();
        known.free.remove(name);
        match busy {
            None => {
                known.busy.remove(name);
            }
            Some(busy) if known.busy.len() < HINTS || known.busy.contains_key(name) => {
                known.busy.insert(name.clone(), busy);
            }
            Some(_) => {}
        }
    }

    /// A renewal has read the lines with these names in doubt. In the rows of some there was no claim of ours.
    pub(crate) fn are_without(&self, names: impl Iterator<Item = Name>) {
        let mut known = self.known();
        for name in names {
            if known.busy.get(&name) == Some(&Busy::InRow) {
                known.busy.remove(&name);
            }
        }
    }

    pub(crate) fn set_free(&self, name: &Name) {
        self.set_free_for(name, FREE);
    }

    /// A transaction of ours gets the name, and the same task comes again when that has ended.
    pub(crate) fn set_free_later(&self, name: &Name) {
        self.set_free_for(name, LATER);
    }

    fn set_free_for(&self, name: &Name, time: Duration) {
        let mut known = self.known();
        known.busy.remove(name);
        if known.free.len() >= HINTS {
            known.free.clear();
        }
        known.free.insert(name.clone(), Instant::now() + time);
    }

    pub(crate) fn set_unknown(&self, name: &Name) {
        self.known().free.remove(name);
    }

    /// The claim is about to leave, unless it is inside a transaction.
    pub(crate) fn leaves(&self, id: ClaimId, name: &Name, surely_over: Moment) -> bool {
        let mut known = self.known();
        let is_inside = known.inside.contains(&id.number);
        if !is_inside {
            known.leaving.insert(id, (name.clone(), surely_over));
        }
        !is_inside
    }

    pub(crate) fn has_left(&self, id: ClaimId) {
        let mut known = self.known();
        known.leaving.remove(&id);
        if id.session == self.session {
            known.waiting.remove(&id.number);
            known.slots.remove(&id.number);
            known.queued.remove(&id.number);
            known.sent.remove(&id.number);
        }
    }

    pub(crate) fn is_leaving(&self, id: ClaimId) -> bool {
        self.known().leaving.contains_key(&id)
    }

    /// The leaves without a confirmation.
    pub(crate) fn unconfirmed(&self) -> Vec<(ClaimId, Name)> {
        self.known().leaving.iter().map(|(id, (name, _))| (*id, name.clone())).collect()
    }

    /// Forgets what is over by now.
    pub(crate) fn forget(&self, now: Moment) {
        let mut known = self.known();
        let Known { void, unanswered, under_way, queued, sent, .. } = &mut *known;
        sent.retain(|number, until| {
            let stays = *until > now || under_way.contains_key(number);
            if !stays {
                queued.remove(number); // nobody waits for that one
            }
            stays
        });
        void.retain(|number, until| {
            let stays = *until > now || under_way.contains_key(number);
            if !stays {
                unanswered.remove(number);
            }
            stays
        });
        known.leaving.retain(|_, (_, surely_over)| *surely_over > now);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_came_before_the_news_of_a_claim_is_noticed() {
        let (claims, name) = (OwnClaims::of(SessionId::from_bits(1)), Name::new("stock").unwrap());
        assert!(!claims.waits(1, &name, 0));
        // While it is read what rang, which may have been asked before this claim stood in line.
        assert_eq!(claims.hears(), std::slice::from_ref(&name));
        assert!(!claims.waits(2, &name, 3));
        assert!(!claims.waits(3, &name, 4), "it joined after that ring");
        assert_eq!(claims.has_heard(4), std::slice::from_ref(&name));
        // After that.
        assert!(claims.waits(4, &name, 3));
        assert!(!claims.waits(5, &name, 4));
        // Asked for with all others.
        claims.hears();
        assert_eq!(claims.has_heard(5), []);
    }

    #[test]
    fn a_refused_try_is_forgotten_when_all_its_requests_were_answered() {
        let (claims, name) = (OwnClaims::of(SessionId::from_bits(1)), Name::new("stock").unwrap());
        for requests in [1, 2] {
            for _ in 0..requests {
                claims.queue(1);
                assert!(claims.sends(1, &name, Moment::from_nanos(9)));
            }
            for left in (0..requests).rev() {
                claims.is_answered(1);
                claims.is_refused(1);
                assert_eq!(claims.known().sent.contains_key(&1), left > 0);
            }
        }
    }

    #[test]
    fn a_claim_with_a_join_that_was_not_answered_can_still_arrive() {
        let (claims, name) = (OwnClaims::of(SessionId::from_bits(1)), Name::new("stock").unwrap());
        let late = Moment::from_nanos(9);
        claims.queue(1);
        assert!(claims.sends(1, &name, late));
        claims.queue(1); // the answer was lost, and it is asked again
        assert!(!claims.make_void(1, late), "the first one may stand in line");
        assert!(!claims.sends(1, &name, late));
        claims.has_left(ClaimId { session: SessionId::from_bits(1), number: 1 });
        for is_under_way in [true, false] {
            assert!(!claims.cannot_join_late(1), "the first one may still be under way");
            assert_eq!(claims.doubtful(), std::slice::from_ref(&name));
            if is_under_way {
                claims.forget(late); // it lies in a runtime that stands still
                assert!(claims.is_void(1));
                claims.are_under_way_no_more(&[1]);
            }
        }
        claims.forget(late);
        assert!(claims.cannot_join_late(1) && claims.doubtful().is_empty());
        // Answered.
        claims.queue(2);
        assert!(claims.sends(2, &name, late));
        claims.is_answered(2);
        assert!(claims.cannot_join_late(2));
        // Never sent.
        claims.queue(3);
        assert!(claims.make_void(3, late) && claims.cannot_join_late(3));
    }

    #[test]
    fn the_name_of_a_claim_inside_a_transaction_is_that_of_its_guard() {
        let claims = OwnClaims::of(SessionId::from_bits(1));
        let [name, guess] = ["stock", "another"].map(|name| Name::new(name).unwrap());
        assert!(claims.goes_inside(1));
        assert!(claims.ends_with_its_transaction(1, &name));
        assert!(!claims.ends_with_its_transaction(1, &guess));
        assert_eq!(claims.ending(), [(1, name)]);
    }

    /// Whoever leads a local line next asks once more, gets the answer to the first request, and gives the hold back.
    #[test]
    fn a_join_that_was_answered_counts_although_another_one_is_never_sent() {
        let (claims, name) = (OwnClaims::of(SessionId::from_bits(1)), Name::new("stock").unwrap());
        let (late, later) = (Moment::from_nanos(9), Moment::from_nanos(10));
        claims.queue(1);
        assert!(claims.sends(1, &name, late));
        claims.queue(1);
        claims.is_answered(1);
        assert!(!claims.make_void(1, late), "the server has it");
        claims.queue(2);
        assert!(claims.sends(2, &name, late));
        claims.is_answered(2);
        claims.queue(2);
        assert!(!claims.make_void(2, late), "the server has it");
        // Remembered for no longer than it matters.
        for number in [3, 4] {
            claims.queue(number);
            assert!(claims.sends(number, &name, late));
            claims.is_answered(number);
            claims.are_under_way_no_more(&[number]);
            claims.queue(number);
        }
        claims.has_left(ClaimId { session: SessionId::from_bits(1), number: 3 });
        claims.forget(later);
        assert!(!claims.make_void(4, late), "that was not queued for so long");
        assert!(claims.known().queued.is_empty());
    }
}
