//! How many claims are looked for at once on one server, and which claims were left out because time ran out.
//!
//! Requests that are sent at once delay the next ones. So a batch is no larger than the server can answer in a small
//! part of a renewal's time. That size depends on the server, the network, and other users of both, so it is measured.

use std::collections::HashMap;
use std::time::Duration;

use tidelock_core::ClaimId;

const LEAST: usize = 1_000;
const FIRST: usize = 16_000;
const MOST: usize = 64_000;

#[derive(Debug)]
pub(crate) struct Pace {
    at_once: usize,
    /// In how many consecutive renewals nothing was learnt about these claims.
    left_out: HashMap<ClaimId, u32>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { at_once: FIRST, left_out: HashMap::new() }
    }
}

impl Pace {
    /// How many of these requests go out together, by their costs. At least one.
    pub(crate) fn count(&self, costs: impl Iterator<Item = usize>) -> usize {
        let mut sum = 0;
        let fits = |cost: &usize| {
            sum += cost;
            sum <= self.at_once
        };
        costs.take_while(fits).count().max(1)
    }

    /// Notes that the answers to requests of that cost took `took`, counted from the first answer. They should take no
    /// longer than `longest`.
    pub(crate) fn took(&mut self, took: Duration, cost: usize, longest: Duration) {
        if took > longest {
            self.at_once = (self.at_once.min(cost) / 2).max(LEAST);
        } else if took < longest / 2 && cost >= self.at_once / 2 {
            self.at_once = (self.at_once * 2).min(MOST);
        }
    }

    /// In how many consecutive renewals nothing was learnt about this claim.
    pub(crate) fn is_left_out(&self, claim: ClaimId) -> u32 {
        self.left_out.get(&claim).copied().unwrap_or(0)
    }

    /// Notes that a renewal learnt nothing about these claims, and something about all others.
    pub(crate) fn leave_out(&mut self, claims: &[ClaimId]) {
        let again = claims.iter().map(|claim| (*claim, self.is_left_out(*claim).saturating_add(1))).collect();
        self.left_out = again;
    }
}

#[cfg(test)]
mod tests {
    use tidelock_core::SessionId;

    use super::*;

    const LONGEST: Duration = Duration::from_millis(100);

    #[test]
    fn it_asks_for_less_when_the_answers_took_long_and_for_more_when_they_did_not() {
        let mut pace = Pace::default();
        let at_once = |pace: &Pace| pace.count(std::iter::repeat_n(100, 10_000)) * 100;
        assert_eq!(at_once(&pace), FIRST);
        pace.took(LONGEST * 2, FIRST, LONGEST);
        assert_eq!(at_once(&pace), FIRST / 2);
        (0..20).for_each(|_| pace.took(LONGEST * 2, FIRST, LONGEST));
        assert_eq!(at_once(&pace), LEAST);
        pace.took(Duration::ZERO, 10, LONGEST);
        assert_eq!(at_once(&pace), LEAST, "so small a batch says nothing");
        (0..20).for_each(|_| pace.took(Duration::ZERO, MOST, LONGEST));
        assert_eq!(at_once(&pace), MOST);
        assert_eq!(pace.count([MOST * 2].into_iter()), 1, "a request that is too large goes out alone");
    }

    #[test]
    fn who_was_left_out_longest_is_known() {
        let claim = |number| ClaimId { session: SessionId::from_bits(1), number };
        let mut pace = Pace::default();
        pace.leave_out(&[claim(1), claim(2)]);
        pace.leave_out(&[claim(2), claim(3)]);
        assert_eq!([1, 2, 3].map(|number| pace.is_left_out(claim(number))), [0, 2, 1]);
    }
}
