//! A batcher gathers requests: those that come while an answer is awaited go out together when the answer comes.
//!
//! A single caller pays no delay; a crowd shares one round trip and one disk write. Leaves go first, and never wait
//! for joins to be let in. Two joins of one name never go into one transaction, because their tokens would be equal.
//! The later join goes out right behind that transaction, by itself, so no claim overtakes another of the same name.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use crate::Name;
use crate::sync::Mutex;

/// A request that may go out together with others.
pub trait Batchable {
    /// The name of the lock that it is about.
    fn name(&self) -> &Name;

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
}

struct Queue<E> {
    is_under_way: bool,
    leaves: VecDeque<E>,
    joins: VecDeque<E>,
}

impl<E: Batchable> Batcher<E> {
    /// A batcher that sends at most `most` requests at once.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let queue = Queue { is_under_way: false, leaves: VecDeque::new(), joins: VecDeque::new() };
        Self { most, queue: Mutex::new(queue) }
    }

    /// Adds a request. If nothing is under way, `send` is called at once; what it begins is then under way until
    /// [`Batcher::go_on`]. `send` must not block.
    pub fn enter<S>(&self, request: E, send: impl FnOnce(Batch<E>) -> S) -> Option<S> {
        let mut queue = self.queue.lock();
        match request.is_join() {
            true => queue.joins.push_back(request),
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

    /// Takes back what was not sent yet. After this call a request either was sent before or never will be.
    pub fn retract(&self, is_it: impl Fn(&E) -> bool) {
        let mut queue = self.queue.lock();
        let is_another = |request: &E| !is_it(request);
        // Dropping a request wakes the task that waits for it, so it is done outside the lock.
        let joins = std::mem::take(&mut queue.joins);
        let (others, retracted): (VecDeque<E>, VecDeque<E>) = joins.into_iter().partition(is_another);
        queue.joins = others;
        drop(queue);
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
        self.joins.retain(Batchable::is_wanted);
        let leaves = most.min(self.leaves.len());
        let mut together: Vec<E> = self.leaves.drain(..leaves).collect();
        let joins = (most - leaves).min(self.joins.len());
        let (mut apart, mut joined) = (Vec::new(), HashSet::new());
        for join in self.joins.drain(..joins) {
            match joined.insert(join.name().clone()) {
                true => together.push(join),
                false => apart.push(join),
            }
        }
        Batch { together, apart }
    }
}

impl<E> fmt::Debug for Batcher<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let waiting = queue.leaves.len() + queue.joins.len();
        f.debug_struct("Batcher")
            .field("is_under_way", &queue.is_under_way)
            .field("waiting", &waiting)
            .finish()
    }
}

#[cfg(all(test, not(tidelock_loom)))]
#[allow(clippy::unwrap_used)] // the helpers are tests too
mod tests {
    use super::*;

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

        fn is_join(&self) -> bool {
            self.is_join
        }

        fn is_wanted(&self) -> bool {
            self.is_wanted
        }
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
        batcher.retract(|request| request.number == 1);
        assert_eq!(batcher.go_on(numbers), Some((vec![3], vec![])));
        let failed = vec![join(4, "a"), Asked { is_wanted: false, ..join(5, "b") }, leave(6, "c")];
        assert_eq!(batcher.again(failed, numbers), (vec![], vec![4, 6]));
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
