//! Joins that must not take effect.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tidelock_core::backend::Moment;

/// Claims whose leave came before their join, by number. They are forgotten when no join can ask for them any more.
#[derive(Debug, Default)]
pub(super) struct Void {
    numbers: HashSet<u64>,
    until: VecDeque<(Moment, u64)>,
}

impl Void {
    pub(super) fn add(&mut self, number: u64, now: Moment, memory: Duration) {
        while self.until.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, old)) = self.until.pop_front() {
                self.numbers.remove(&old);
            }
        }
        if self.numbers.insert(number) {
            self.until.push_back((now + memory, number));
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn void_claims_are_forgotten_in_the_end() {
        let mut void = Void::default();
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        void.add(1, at(0), Duration::from_secs(5));
        void.add(2, at(4), Duration::from_secs(5));
        assert!(void.has(1) && void.has(2));
        void.add(3, at(6), Duration::from_secs(5));
        assert!(!void.has(1) && void.has(2) && void.has(3));
    }
}
