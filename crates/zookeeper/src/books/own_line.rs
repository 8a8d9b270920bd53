//! The claims of a client's that wait in one line, and what is watched for the first of them.

use std::collections::BTreeSet;

use tidelock::{Claim, Kind, Weight};

use super::claims::Claims;
use super::watch::Watch;
use super::{Behind, Next, Task, What};
use crate::order::{Ahead, Order};

/// What everyone in a line was seen to use it as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedAs {
    pub(crate) kind: Kind,
    pub(crate) size: Weight,
    /// Of the line's data, which are a capacity.
    pub(crate) version: i32,
}

#[derive(Debug, Default)]
pub(super) struct OwnLine {
    pub(super) waiting: BTreeSet<u64>,
    pub(super) watch: Option<Watch>,
    /// What watches the line's capacity.
    pub(super) capacity: Option<Task>,
    /// What the line was used as when it was last seen, by everyone in it.
    seen: Option<UsedAs>,
    order: Order,
}

impl OwnLine {
    /// The version that the line's data had, if somebody of ours stands before this claim, and is watched for.
    pub(super) fn waited_before(&self, claim: &Claim, declared: Weight, claims: &Claims) -> Option<i32> {
        let is_ahead = |watch: &Watch| {
            self.waiting.contains(&watch.first) && claims.is_ahead(watch.first, claim.id.number)
        };
        let seen = self.seen.filter(|seen| (seen.kind, seen.size) == (claim.kind, declared))?;
        let is_watched = self.watch.as_ref().is_some_and(is_ahead);
        (is_watched && claim.weight <= declared).then_some(seen.version)
    }

    /// Who has its turn when this one leaves: somebody of ours who stands right behind it, with a mutex.
    pub(super) fn next(&self, leaving: u64, claims: &Claims) -> Option<Next> {
        let watch = self.watch.as_ref().filter(|watch| watch.what == What::Own(leaving))?;
        let stands = claims.standing(watch.first)?;
        let is_mutex = self.seen.is_some_and(|seen| seen.kind == Kind::Mutex);
        is_mutex.then(|| Next { number: watch.first, node: stands.nodes[0].clone() })
    }

    /// This one waits no more, and whoever is next waits for what is known, if anything is. The watch that this ends is
    /// to be dropped where no lock is held.
    pub(super) fn turn(&mut self, number: u64, serial: u64, claims: &Claims) -> (Behind, Option<Watch>) {
        self.waiting.remove(&number);
        self.order.is_turn_of(number);
        let (watch, behind) = match self.order.first(&self.waiting, |own| claims.has(own)) {
            _ if self.waiting.is_empty() => (None, Behind::Watched),
            None => (None, Behind::Unknown),
            Some((first, What::Own(own))) => {
                (Some(Watch { serial, first, what: What::Own(own), _task: None }), Behind::Watched)
            }
            Some((first, what)) => (None, Behind::Known(first, what)),
        };
        (behind, std::mem::replace(&mut self.watch, watch))
    }

    /// On whom it depends whether the first of ours has its turn, as far as that is known.
    pub(super) fn ahead(&self, claims: &Claims) -> Option<Ahead> {
        self.order.ahead(&self.waiting, |own| claims.has(own))
    }

    /// It was seen as this. Says whether somebody of ours waits who was not in it, and whom nothing is watched for.
    pub(super) fn saw(&mut self, seen: Option<UsedAs>, order: Order, claims: &Claims) -> bool {
        self.seen = seen;
        self.order = order;
        self.watch.is_none() && self.waiting.iter().any(|number| claims.standing(*number).is_some())
    }

    /// Its capacity is another now.
    pub(super) fn has_changed(&mut self) {
        self.seen = None;
    }

    /// Whether that is to be watched for this one, and is not yet.
    pub(super) fn wants(&self, first: u64, what: &What) -> bool {
        let is_it = |watch: &Watch| watch.first == first && watch.what == *what;
        self.waiting.contains(&first) && !self.watch.as_ref().is_some_and(is_it)
    }
}
