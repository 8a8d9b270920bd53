//! Claims of this client that are void: no join of them may take effect any more.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tidelock_core::backend::Moment;

/// For how many ages the key of a void claim is kept while a join of it seems to be on its way.
const LONGEST: u32 = 16;

/// Void claims, by number, and the keys that say so in the store. They are forgotten when no join can ask for them any
/// more.
#[derive(Debug, Default)]
pub(crate) struct Void {
    numbers: HashSet<u64>,
    until: VecDeque<(Moment, u64)>,
    /// Since when the store has a key for the claim.
    kept: VecDeque<(Moment, u64)>,
    kept_numbers: HashSet<u64>,
}

impl Void {
    pub(crate) fn add(&mut self, number: u64, now: Moment, memory: Duration) {
        while self.until.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, old)) = self.until.pop_front() {
                self.numbers.remove(&old);
            }
        }
        if self.numbers.insert(number) {
            self.until.push_back((now + memory, number));
        }
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// The store has a key for this claim.
    pub(crate) fn is_kept(&mut self, number: u64, now: Moment) {
        if self.kept_numbers.insert(number) {
            self.kept.push_back((now, number));
        }
    }

    /// Claims whose key is older than that, and is not needed any more. It is needed while a join may still arrive, but
    /// not for ever: the task that has it may have ended with its runtime.
    pub(crate) fn outdated(
        &mut self,
        now: Moment,
        age: Duration,
        may_come: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let old = self.kept.iter().take_while(|(since, _)| now.since(*since) > age).count();
        let is_needed =
            |(since, number): &(Moment, u64)| may_come(*number) && now.since(*since) <= age * LONGEST;
        let (needed, outdated): (Vec<_>, Vec<_>) = self.kept.drain(..old).partition(is_needed);
        needed.into_iter().rev().for_each(|kept| self.kept.push_front(kept));
        outdated.iter().for_each(|(_, number)| {
            self.kept_numbers.remove(number);
        });
        outdated.into_iter().map(|(_, number)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    #[test]
    fn void_claims_are_forgotten_in_the_end() {
        let mut void = Void::default();
        void.add(1, at(0), Duration::from_secs(5));
        void.add(2, at(4), Duration::from_secs(5));
        assert!(void.has(1) && void.has(2));
        void.add(3, at(6), Duration::from_secs(5));
        assert!(!void.has(1) && void.has(2) && void.has(3));
    }

    #[test]
    fn keys_are_outdated_in_the_order_in_which_they_were_made() {
        let mut void = Void::default();
        void.is_kept(1, at(1));
        void.is_kept(2, at(2));
        void.is_kept(1, at(3));
        let age = Duration::from_secs(5);
        assert_eq!(void.outdated(at(6), age, |_| false), [0; 0]);
        assert_eq!(void.outdated(at(7), age, |_| false), [1]);
        void.is_kept(1, at(8)); // it is still there
        assert_eq!(void.outdated(at(9), age, |_| false), [2]);
        assert_eq!(void.outdated(at(14), age, |_| false), [1]);
    }

    #[test]
    fn many_keys_cost_no_time() {
        let (mut void, many, age) = (Void::default(), 50_000, Duration::from_secs(5));
        let began = std::time::Instant::now();
        for since in [1, 2, 3] {
            (0..many).for_each(|number| void.is_kept(number, at(since)));
        }
        assert_eq!(void.outdated(at(10), age, |_| false).len(), 50_000);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn a_key_stays_while_a_join_may_come() {
        let mut void = Void::default();
        (1..=3).for_each(|number| void.is_kept(number, at(number)));
        let age = Duration::from_secs(5);
        assert_eq!(void.outdated(at(20), age, |number| number != 2), [2]);
        assert_eq!(void.outdated(at(20), age, |number| number == 3), [1]);
        assert_eq!(void.outdated(at(200), age, |_| true), [3]);
    }
}
