//! A batcher gathers requests: those that come while an answer is awaited go out together when the answer comes.
//!
//! A single caller pays no delay; a crowd shares one round trip and one disk write. Leaves go first, and never wait
//! for joins to be let in. Two joins of one name never go into one transaction, because their tokens would be equal.
//! The later join goes out right behind that transaction, by itself, if the store carries requests out in the order in
//! which they were sent. Otherwise it waits for the answer to the earlier one. So no claim overtakes another of the same
//! name; but with a store of that kind a large crowd of one name would have to wait for as many round trips as it has
//! members. So a small part of it, one in [`Batcher::STRICT`], goes out at once and in any order.
//!
//! Those who were answered together often come again together, but not in the same microsecond. So behind a batch of
//! several requests its sender may wait for a moment ([`Batcher::regather`]); otherwise the first of them would go alone,
//! and all others wait for its disk write.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Mutex};
use crate::{ClaimId, Name};

/// For how long a batcher waits for those that were answered together: this part of what their batch took.
const PART: u32 = 8;
/// And never longer than this.
const LONGEST: Duration = Duration::from_micros(300);

/// A request that may go out together with others.
pub trait Batchable {
    /// The name of the lock that it is about.
    fn name(&self) -> &Name;

    /// The claim that it is about.
    fn claim(&self) -> ClaimId;

    /// Whether it creates a claim, and so a token.
    fn is_join(&self) -> bool;

    /// Whether anybody still wants it. To be sure that it is not sent, a caller has to [`Batcher::retract`] it.
    fn is_wanted(&self) -> bool;
}

/// The requests that go out at once: one transaction, and the requests that must follow it in this order.
#[derive(Debug)]
pub struct Batch<E> {
    /// Requests that may be carried out together.
    pub together: Vec<E>,
    /// Requests that must be sent one by one.
    pub apart: Vec<E>,
}

/// Gathers requests. One batch is under way at a time.
pub struct Batcher<E> {
    most: usize,
    queue: Mutex<Queue<E>>,
    /// How many requests have come in all.
    arrived: AtomicU64,
}

struct Queue<E> {
    is_under_way: bool,
    leaves: VecDeque<E>,
    /// The joins that wait. Each caller of a crowd may take its own back, so none is looked for.
    waiting: BTreeMap<Ticket, E>,
    /// In which order they go out. Those that were taken back are passed over.
    order: VecDeque<(Name, Ticket)>,
    /// Behind the join of each name that is in `order`, the later ones. None: they are in `order` too.
    later: Option<HashMap<Name, VecDeque<Ticket>>>,
    tickets: u64,
}

/// A join's claim, and a number of its own.
type Ticket = (ClaimId, u64);

impl<E: Batchable> Batcher<E> {
    /// For each so many joins of one name that wait, one goes out at once with a store that keeps no order.
    pub const STRICT: usize = 64;

    /// A batcher that sends at most `most` requests at once, to a store that carries them out in the order in which they
    /// were sent.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::of(most, None)
    }

    /// A batcher for a store in which a request may overtake those that were sent before it. A batch has one join of each
    /// name, and more only if more than [`Batcher::STRICT`] of that name wait.
    #[must_use]
    pub fn in_turn(most: usize) -> Self {
        Self::of(most, Some(HashMap::new()))
    }

    fn of(most: usize, later: Option<HashMap<Name, VecDeque<Ticket>>>) -> Self {
        let queue = Queue {
            is_under_way: false,
            leaves: VecDeque::new(),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            later,
            tickets: 0,
        };
        Self { most, queue: Mutex::new(queue), arrived: AtomicU64::new(0) }
    }

    /// Adds a request. If nothing is under way, `send` is called at once; what it begins is then under way until
    /// [`Batcher::go_on`]. `send` must not block.
    pub fn enter<S>(&self, request: E, send: impl FnOnce(Batch<E>) -> S) -> Option<S> {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        match request.is_join() {
            true => queue.join(request),
            false => queue.leaves.push_back(request),
        }
        if queue.is_under_way {
            return None;
        }
        queue.send(self.most, send)
    }

    /// The batch under way was answered: sends what came in the meantime. `None` if nothing came; then nothing is
    /// under way.
    ///
    /// `send` is called under the batcher's lock, so a caller of [`Batcher::retract`] knows that its request either was
    /// sent before or never will be.
    pub fn go_on<S>(&self, send: impl FnOnce(Batch<E>) -> S) -> Option<S> {
        self.queue.lock().send(self.most, send)
    }

    /// The batch under way failed as a whole. Sends those of its requests that are still wanted again, one by one.
    pub fn again<S>(&self, failed: Vec<E>, send: impl FnOnce(Batch<E>) -> S) -> S {
        let queue = self.queue.lock();
        let apart = failed.into_iter().filter(Batchable::is_wanted).collect();
        let sent = send(Batch { together: Vec::new(), apart });
        drop(queue);
        sent
    }

    /// How many requests have come in all.
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Waits for a moment until as many requests as were answered together have come again: since `arrived`, when their
    /// batch was sent, which `took` so long. A single request is not waited for.
    pub async fn regather(&self, crowd: u64, arrived: u64, took: Duration) {
        if crowd < 2 {
            return;
        }
        let (began, longest) = (Instant::now(), (took / PART).min(LONGEST));
        while self.arrived() < arrived + crowd && began.elapsed() < longest {
            tokio::task::yield_now().await; // a timer would take a millisecond
        }
    }

    /// Takes out everything that was not sent, in the order in which it came: it goes out by another batcher. Nothing is
    /// under way here any more.
    pub fn hand_over(&self) -> Vec<E> {
        self.queue.lock().take_all()
    }

    /// Whether joins of this name wait to be sent, to a store that keeps no order.
    pub fn has_joins_of(&self, name: &Name) -> bool {
        self.queue.lock().later.as_ref().is_some_and(|later| later.contains_key(name))
    }

    /// Takes back this claim's joins that were not sent yet. After this call a join of it either was sent before or never
    /// will be.
    pub fn retract(&self, claim: ClaimId) {
        // Dropping a request wakes the task that waits for it, so it is done outside the lock.
        let retracted = self.queue.lock().take_back(claim);
        drop(retracted);
    }
}

impl<E: Batchable> Queue<E> {
    fn send<S>(&mut self, most: usize, send: impl FnOnce(Batch<E>) -> S) -> Option<S> {
        let batch = self.next(most);
        self.is_under_way = !(batch.together.is_empty() && batch.apart.is_empty());
        self.is_under_way.then(|| send(batch))
    }

    fn next(&mut self, most: usize) -> Batch<E> {
        let leaves = most.min(self.leaves.len());
        let mut together: Vec<E> = self.leaves.drain(..leaves).collect();
        let (mut apart, mut joined) = (Vec::new(), HashSet::new());
        // Counted before: a name whose joins are taken now stands at the end again, with its next one.
        for _ in 0..self.order.len() {
            let room = most - together.len() - apart.len();
            if room == 0 {
                break;
            }
            for join in self.next_joins(room) {
                match joined.insert(join.name().clone()) {
                    true => together.push(join),
                    false => apart.push(join),
                }
            }
        }
        Batch { together, apart }
    }

    fn join(&mut self, join: E) {
        self.tickets += 1;
        let (name, ticket) = (join.name().clone(), (join.claim(), self.tickets));
        self.waiting.insert(ticket, join);
        let Some(later) = &mut self.later else { return self.order.push_back((name, ticket)) };
        match later.entry(name) {
            Entry::Occupied(mut behind) => behind.get_mut().push_back(ticket),
            Entry::Vacant(first) => {
                self.order.push_back((first.key().clone(), ticket));
                first.insert(VecDeque::new());
            }
        }
    }

    /// Takes the first join out, if it is still wanted. With a store that keeps no order: the first ones of its name.
    fn next_joins(&mut self, room: usize) -> Vec<E> {
        let Some((name, first)) = self.order.pop_front() else { return Vec::new() };
        let mut wanted = |ticket: Ticket| self.waiting.remove(&ticket).filter(E::is_wanted);
        let mut taken = Vec::from_iter(wanted(first));
        let Some(later) = &mut self.later else { return taken };
        let Some(behind) = later.get_mut(&name) else { return taken };
        let share = room.min(1 + behind.len() / Batcher::<E>::STRICT);
        while taken.len() < share
            && let Some(next) = behind.pop_front()
        {
            taken.extend(wanted(next));
        }
        match behind.pop_front() {
            Some(next) => self.order.push_back((name, next)),
            None => drop(later.remove(&name)),
        }
        taken
    }

    fn take_all(&mut self) -> Vec<E> {
        self.is_under_way = false;
        self.order.clear();
        if let Some(later) = &mut self.later {
            later.clear();
        }
        let mut joins: Vec<(Ticket, E)> = std::mem::take(&mut self.waiting).into_iter().collect();
        joins.sort_unstable_by_key(|((_, number), _)| *number);
        self.leaves.drain(..).chain(joins.into_iter().map(|(_, join)| join)).collect()
    }

    fn take_back(&mut self, claim: ClaimId) -> Vec<E> {
        let of_claim = self.waiting.range((claim, 0)..=(claim, u64::MAX));
        let tickets: Vec<Ticket> = of_claim.map(|(ticket, _)| *ticket).collect();
        tickets.into_iter().filter_map(|ticket| self.waiting.remove(&ticket)).collect()
    }
}

impl<E> fmt::Debug for Batcher<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let waiting = queue.leaves.len() + queue.waiting.len();
        f.debug_struct("Batcher")
            .field("is_under_way", &queue.is_under_way)
            .field("waiting", &waiting)
            .finish()
    }
}

#[cfg(all(test, not(tidelock_loom)))]
#[allow(clippy::unwrap_used)] // the helpers are tests too
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;
    use crate::SessionId;
    use crate::at_once::at_once;

    #[derive(Debug)]
    struct Asked {
        number: u32,
        name: Name,
        is_join: bool,
        is_wanted: bool,
    }

    impl Batchable for Asked {
        fn name(&self) -> &Name {
            &self.name
        }

        fn claim(&self) -> ClaimId {
            claim(self.number)
        }

        fn is_join(&self) -> bool {
            self.is_join
        }

        fn is_wanted(&self) -> bool {
            self.is_wanted
        }
    }

    fn claim(number: u32) -> ClaimId {
        ClaimId { session: SessionId::from_bits(1), number: number.into() }
    }

    fn join(number: u32, name: &str) -> Asked {
        Asked { number, name: Name::new(name).unwrap(), is_join: true, is_wanted: true }
    }

    fn leave(number: u32, name: &str) -> Asked {
        Asked { is_join: false, ..join(number, name) }
    }

    fn numbers(batch: Batch<Asked>) -> (Vec<u32>, Vec<u32>) {
        let numbers = |requests: Vec<Asked>| requests.into_iter().map(|request| request.number).collect();
        (numbers(batch.together), numbers(batch.apart))
    }

    /// A batcher with a request under way.
    fn busy(most: usize) -> Batcher<Asked> {
        let batcher = Batcher::new(most);
        assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
        batcher
    }

    #[test]
    fn who_is_alone_goes_at_once_and_a_crowd_goes_together() {
        let batcher = busy(9);
        for number in 1..4 {
            assert_eq!(batcher.enter(join(number, &number.to_string()), numbers), None);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![1, 2, 3], vec![])));
        assert_eq!(batcher.go_on(numbers), None);
        assert_eq!(batcher.enter(join(4, "n"), numbers), Some((vec![4], vec![])));
    }

    #[test]
    fn leaves_go_first_and_joins_of_one_name_one_after_the_other() {
        let batcher = busy(9);
        for request in [join(1, "a"), join(2, "a"), join(3, "b"), join(4, "a"), leave(5, "a")] {
            batcher.enter(request, numbers);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![5, 1, 3], vec![2, 4])));
    }

    #[test]
    fn in_turn_a_join_waits_for_the_answer_to_the_one_before_it_of_its_name() {
        let batcher = Batcher::in_turn(9);
        assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
        for request in [join(1, "a"), join(2, "a"), join(3, "b"), join(4, "a"), leave(5, "a")] {
            batcher.enter(request, numbers);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![5, 1, 3], vec![])));
        batcher.enter(join(6, "b"), numbers);
        assert_eq!(batcher.go_on(numbers), Some((vec![2, 6], vec![])));
        assert_eq!(batcher.go_on(numbers), Some((vec![4], vec![])));
        assert_eq!(batcher.go_on(numbers), None);
    }

    #[test]
    fn in_turn_what_is_retracted_or_not_wanted_holds_up_none_of_its_name() {
        let batcher = Batcher::in_turn(9);
        assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
        batcher.enter(join(1, "a"), numbers);
        batcher.enter(Asked { is_wanted: false, ..join(2, "a") }, numbers);
        batcher.enter(join(3, "a"), numbers);
        batcher.enter(Asked { is_wanted: false, ..join(4, "b") }, numbers);
        batcher.enter(Asked { is_wanted: false, ..join(5, "b") }, numbers);
        batcher.retract(claim(1));
        assert_eq!(batcher.go_on(numbers), Some((vec![3], vec![])));
        assert_eq!(batcher.go_on(numbers), None);
        assert_eq!(batcher.enter(join(6, "b"), numbers), Some((vec![6], vec![])));
    }

    #[test]
    fn in_turn_a_crowd_holds_up_no_other_name() {
        let batcher = Batcher::in_turn(2);
        assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
        for request in [join(1, "a"), join(2, "a"), join(3, "a"), join(4, "b"), join(5, "c")] {
            batcher.enter(request, numbers);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![1, 4], vec![])));
        assert_eq!(batcher.go_on(numbers), Some((vec![5, 2], vec![])));
    }

    #[test]
    fn in_turn_a_small_part_of_a_large_crowd_goes_out_at_once() {
        let batcher = Batcher::in_turn(9);
        assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
        for number in 1..=200 {
            batcher.enter(join(number, "a"), numbers);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![1], vec![2, 3, 4])));
        assert_eq!(batcher.go_on(numbers), Some((vec![5], vec![6, 7, 8])));
        assert_eq!(batcher.go_on(numbers), Some((vec![9], vec![10, 11])));
        let rest: Vec<_> = std::iter::from_fn(|| batcher.go_on(numbers)).collect();
        assert_eq!(rest.last(), Some(&(vec![200], vec![])));
        assert!(rest.iter().rev().take(60).all(|(_, apart)| apart.is_empty()));
    }

    #[test]
    fn what_is_handed_over_keeps_its_order() {
        for batcher in [Batcher::new(9), Batcher::in_turn(9)] {
            assert_eq!(batcher.enter(join(0, "first"), numbers), Some((vec![0], vec![])));
            for request in [join(9, "a"), join(4, "b"), join(3, "a"), leave(5, "c"), join(1, "a")] {
                batcher.enter(request, numbers);
            }
            let order: Vec<u32> = batcher.hand_over().iter().map(|request| request.number).collect();
            assert_eq!(order, [5, 9, 4, 3, 1]);
            assert_eq!(batcher.enter(join(2, "a"), numbers), Some((vec![2], vec![])));
        }
    }

    #[test]
    fn a_crowd_is_sent_in_parts() {
        let batcher = busy(2);
        for request in [join(1, "a"), join(2, "b"), join(3, "c"), leave(4, "a")] {
            batcher.enter(request, numbers);
        }
        assert_eq!(batcher.go_on(numbers), Some((vec![4, 1], vec![])));
        assert_eq!(batcher.go_on(numbers), Some((vec![2, 3], vec![])));
    }

    #[test]
    fn what_is_retracted_or_not_wanted_is_not_sent() {
        let batcher = busy(9);
        batcher.enter(join(1, "a"), numbers);
        batcher.enter(Asked { is_wanted: false, ..join(2, "b") }, numbers);
        batcher.enter(join(3, "c"), numbers);
        batcher.retract(claim(1));
        assert_eq!(batcher.go_on(numbers), Some((vec![3], vec![])));
        let failed = vec![join(4, "a"), Asked { is_wanted: false, ..join(5, "b") }, leave(6, "c")];
        assert_eq!(batcher.again(failed, numbers), (vec![], vec![4, 6]));
    }

    #[tokio::test]
    async fn who_was_answered_together_is_waited_for_until_as_many_have_come() {
        let (batcher, hour) = (Arc::new(busy(9)), Duration::from_secs(3_600));
        batcher.enter(join(9, "a"), numbers);
        let arrived = batcher.arrived();
        assert!(
            at_once(pin!(batcher.regather(1, arrived, hour))).is_some(),
            "a single one is not waited for"
        );
        assert!(at_once(pin!(batcher.regather(2, arrived - 2, hour))).is_some(), "both have come");
        let began = Instant::now();
        batcher.regather(2, batcher.arrived(), hour).await;
        assert!(began.elapsed() >= LONGEST, "nobody comes");
        let comes = batcher.clone();
        tokio::spawn(async move { (1..3).for_each(|number| drop(comes.enter(join(number, "a"), numbers))) });
        batcher.regather(2, arrived, hour).await;
        assert_eq!(batcher.arrived(), arrived + 2);
    }

    #[test]
    fn requests_that_nobody_wants_hold_nobody_up() {
        let batcher = busy(1);
        batcher.enter(Asked { is_wanted: false, ..join(1, "a") }, numbers);
        batcher.enter(join(2, "b"), numbers);
        assert_eq!(batcher.go_on(numbers), Some((vec![2], vec![])));
        batcher.enter(Asked { is_wanted: false, ..join(3, "a") }, numbers);
        assert_eq!(batcher.go_on(numbers), None);
        assert_eq!(batcher.enter(join(4, "b"), numbers), Some((vec![4], vec![])));
    }
}
