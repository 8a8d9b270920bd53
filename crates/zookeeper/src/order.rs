//! The order of a mutex's line when it was last seen, first in line first.
//!
//! Later claims stand behind all of these, and none changes places. So when one of our claims gets its turn, or a claim
//! ahead of ours leaves, the next one, and the claims its turn depends on, are known without another list.

use std::collections::{BTreeSet, VecDeque};

use tidelock_core::{Kind, SessionId};

use crate::listing::{LineView, Standing};
use crate::watch::Target;

/// How many claims are remembered.
const MOST: usize = 1_000;
/// How many nodes are read one by one before the whole line is listed instead.
const FEW: usize = 16;

/// The line's order, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Order(VecDeque<Stood>);

#[derive(Debug)]
struct Stood {
    /// Its number, if it is one of ours.
    own: Option<u64>,
    node: String,
}

/// Our first waiter, and all that stood ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) number: u64,
    pub(crate) node: String,
    pub(crate) nodes: Vec<String>,
}

impl Order {
    pub(crate) fn of(seen: &LineView, session: SessionId) -> Self {
        if seen.line.claims.iter().any(|claim| claim.kind != Kind::Mutex) {
            return Self::default();
        }
        let stood = |standing: &Standing| Stood {
            own: (standing.id.session == session).then_some(standing.id.number),
            node: standing.node.clone(),
        };
        Self(seen.listing.standing.iter().take(MOST).map(stood).collect())
    }

    /// It is this claim's turn, so none is ahead of it.
    pub(crate) fn is_turn_of(&mut self, number: u64) {
        let position = self.0.iter().position(|stood| stood.own == Some(number));
        self.0.drain(..position.unwrap_or(self.0.len()));
    }

    /// The claim has left the line.
    pub(crate) fn left(&mut self, number: u64) {
        self.0.retain(|stood| stood.own != Some(number));
    }

    /// Whether this claim of ours stood at this node, and not at an earlier node of its own.
    pub(crate) fn has(&self, number: u64, node: &str) -> bool {
        self.0.iter().find(|stood| stood.own == Some(number)).is_some_and(|stood| stood.node == node)
    }

    /// Our first waiter, and what to watch for it. `stands` tells which of our claims are still there.
    pub(crate) fn first(
        &self,
        waiting: &BTreeSet<u64>,
        stands: impl Fn(u64) -> bool,
    ) -> Option<(u64, Target)> {
        let (position, number) = self.first_of(waiting)?;
        let still = |stood: &&Stood| stood.own.is_none_or(&stands);
        let ahead = self.0.range(..position).rev().find(still)?;
        Some((number, ahead.own.map_or_else(|| Target::Node(ahead.node.clone()), Target::Own)))
    }

    /// Our first waiter, and the claims its turn depends on. None: it depends on one of ours or on too many, or the
    /// place of our next waiter is unknown, so the line must be listed anyway.
    pub(crate) fn ahead(&self, waiting: &BTreeSet<u64>, stands: impl Fn(u64) -> bool) -> Option<Ahead> {
        let (position, number) = self.first_of(waiting)?;
        let is_waiting = |stood: &Stood| stood.own.is_some_and(|own| waiting.contains(&own));
        if waiting.len() > 1 && !self.0.range(position + 1..).any(is_waiting) {
            return None;
        }
        if self.0.range(..position).filter_map(|stood| stood.own).any(stands) {
            return None;
        }
        let others = self.0.range(..position).filter(|stood| stood.own.is_none());
        let nodes: Vec<String> = others.map(|stood| stood.node.clone()).take(FEW + 1).collect();
        (nodes.len() <= FEW).then(|| Ahead { number, node: self.0[position].node.clone(), nodes })
    }

    fn first_of(&self, waiting: &BTreeSet<u64>) -> Option<(usize, u64)> {
        let is_waiting = |stood: &Stood| stood.own.filter(|number| waiting.contains(number));
        self.0.iter().enumerate().find_map(|(position, stood)| Some((position, is_waiting(stood)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are other clients' claims, numbers are ours.
    fn order(line: &str) -> Order {
        let stood = |word: &str| Stood { own: word.parse().ok(), node: word.to_owned() };
        Order(line.split(' ').map(stood).collect())
    }

    fn waiting(numbers: &[u64]) -> BTreeSet<u64> {
        numbers.iter().copied().collect()
    }

    #[test]
    fn the_first_of_ours_waits_for_the_claim_right_ahead_of_it() {
        let all = |_| true;
        let node = |number, node: &str| Some((number, Target::Node(node.to_owned())));
        assert_eq!(order("a b 1 2").first(&waiting(&[1, 2]), all), node(1, "b"));
        assert_eq!(order("a 1 2").first(&waiting(&[2]), all), Some((2, Target::Own(1))));
        assert_eq!(order("a 1 2").first(&waiting(&[2]), |number| number != 1), node(2, "a"));
        assert_eq!(order("1 2").first(&waiting(&[2]), |number| number != 1), None, "it may have its turn");
        assert_eq!(order("a 1").first(&waiting(&[2]), all), None, "it came later");
    }

    #[test]
    fn it_has_its_turn_when_all_ahead_are_gone() {
        let ahead = |line: &str, still: &[u64]| order(line).ahead(&waiting(&[7]), |own| still.contains(&own));
        let some = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            Some(Ahead { number: 7, node: "7".into(), nodes })
        };
        assert_eq!(ahead("a 1 b 7 c", &[]), some(&["a", "b"]));
        assert_eq!(ahead("a 1 b 7 c", &[1]), None);
        let two = waiting(&[7, 8]);
        assert_eq!(order("a 7 b 8").ahead(&two, |_| false).map(|ahead| ahead.number), Some(7));
        assert_eq!(order("a 7 b").ahead(&two, |_| false), None, "where 8 stands is not known");
        assert_eq!(ahead(&format!("{}7", "a ".repeat(FEW)), &[]).map(|ahead| ahead.nodes.len()), Some(FEW));
        assert_eq!(ahead(&format!("{}7", "a ".repeat(FEW + 1)), &[]), None);
        let mut order = order("a 1 b 7 c");
        order.is_turn_of(1);
        assert_eq!(order.ahead(&waiting(&[7]), |_| false), some(&["b"]));
        order.is_turn_of(9);
        assert_eq!(order.ahead(&waiting(&[7]), |_| false), None, "its place is not known");
    }
}
