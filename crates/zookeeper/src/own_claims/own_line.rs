//! A client's claims in one line, and what is watched for the first of them that waits.

use tidelock_core::backend::{Aim, Armed, Claim, OwnLine as Rule, Watch};
use tidelock_core::{ClaimId, Kind, SessionId, Weight};

use super::claims::Claims;
use super::turn::{Behind, Next};
use crate::listing::LineView;
use crate::order::{Ahead, Order};
use crate::watch::{AbortOnDrop, Target};

/// The one kind and size that all claims in a line were seen to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedAs {
    pub(crate) kind: Kind,
    pub(crate) size: Weight,
    /// The version of the line's data, which are a capacity.
    pub(crate) version: i32,
    /// The line takes no more claims: other clients could not list it, or its sequences are too far apart.
    pub(crate) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct OwnLine {
    /// Which of our claims wait, and what to watch for them.
    pub(super) rule: Rule,
    session: SessionId,
    /// The task that watches it in the store, and the number of that watch.
    task: Option<(u64, AbortOnDrop)>,
    /// The task that watches the line's capacity.
    pub(super) capacity: Option<AbortOnDrop>,
    /// How all claims in the line used it when it was last seen.
    seen: Option<UsedAs>,
    order: Order,
}

/// Tasks that are not needed any more. Drop them after the lock is released.
pub(super) type Ended = [Option<AbortOnDrop>; 2];

impl OwnLine {
    pub(super) fn new(session: SessionId, stamp: u64) -> Self {
        let rule = Rule::new(session, stamp);
        Self { rule, session, task: None, capacity: None, seen: None, order: Order::default() }
    }

    /// The version of the line's data, if another claim of ours stands before this one and its watch is set.
    pub(super) fn waited_before(&self, claim: &Claim, declared: Weight, claims: &Claims) -> Option<i32> {
        let is_ahead = |armed: &Armed| {
            self.rule.is_waiting(armed.first) && claims.is_ahead(armed.first, claim.id.number)
        };
        let is_open = |seen: &UsedAs| (seen.kind, seen.size) == (claim.kind, declared) && !seen.is_closed;
        let seen = self.seen.filter(is_open)?;
        let is_watched = self.rule.armed().is_some_and(is_ahead);
        (is_watched && claim.weight <= declared).then_some(seen.version)
    }

    /// Our claim that gets its turn when this one leaves: it stands directly behind it in a mutex's line, and still at
    /// the node where it was seen. At any other place, other clients may have come ahead of it.
    pub(super) fn next(&self, leaving: ClaimId, claims: &Claims) -> Option<Next> {
        let armed = self.rule.armed().filter(|armed| armed.what == Watch::Claim(leaving))?;
        let node = &claims.standing(armed.first)?.nodes[0];
        let is_mutex = self.seen.is_some_and(|seen| seen.kind == Kind::Mutex);
        let is_next = is_mutex && self.order.has(armed.first, node);
        is_next.then(|| Next { number: armed.first, node: node.clone() })
    }

    /// This claim waits no more. The next of ours waits for the claim known to be ahead of it, if any: `watch` is
    /// called with it.
    pub(super) fn turn(&mut self, number: u64, watch: impl FnOnce(u64, Target) -> AbortOnDrop) -> Behind {
        self.rule.waits_no_more(number);
        self.order.is_turn_of(number);
        self.follow(watch)
    }

    /// One of our claims has left. The claim of ours that waited for it, or is the first now, waits for the claim known
    /// to be ahead of it.
    pub(super) fn left(&mut self, number: u64, watch: impl FnOnce(u64, Target) -> AbortOnDrop) -> Behind {
        if !self.rule.left(number) {
            return Behind::Watched;
        }
        self.order.left(number);
        self.follow(watch)
    }

    /// Our first waiter waits for the claim directly ahead of it in the order that was seen, without those of ours that
    /// have left since. Nothing else can have come ahead of it.
    fn follow(&mut self, watch: impl FnOnce(u64, Target) -> AbortOnDrop) -> Behind {
        if !self.rule.is_waited_in() {
            self.rule.disarm();
            return Behind::Watched;
        }
        match self.order.first(self.rule.waiting(), |own| self.rule.has(own)) {
            None => {
                self.rule.disarm();
                Behind::Unknown
            }
            Some((first, Target::Own(number))) => {
                self.rule.arm(first, Watch::Claim(ClaimId { session: self.session, number }));
                Behind::Watched
            }
            Some((first, target)) => match target.claim() {
                Some(other) => {
                    if let Aim::Watch(armed) = self.rule.aim(first, Watch::Claim(other)) {
                        self.task = Some((armed.serial, watch(armed.serial, target)));
                    }
                    Behind::Watched
                }
                None => Behind::Unknown,
            },
        }
    }

    /// The claims on which the turn of our first waiter depends, as far as they are known.
    pub(super) fn ahead(&self) -> Option<Ahead> {
        self.order.ahead(self.rule.waiting(), |own| self.rule.has(own))
    }

    /// The line was seen like this: `watch` is called with what to watch. A list may be older than the latest change to
    /// one of our claims. It still shows the order of the others.
    pub(super) fn saw(
        &mut self,
        seen: &LineView,
        order: Order,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> Behind {
        let in_use = seen.line.in_use().filter(|_| seen.line.is_of_one_type());
        let (version, is_closed) = (seen.listing.stat.version, seen.listing.is_too_long || seen.is_worn());
        self.seen = in_use.map(|(kind, size)| UsedAs { kind, size, version, is_closed });
        self.order = order;
        match self.rule.seen(&seen.line, seen.listing.stamp) {
            Aim::Kept => Behind::Watched,
            Aim::Look => self.follow(watch),
            Aim::Watch(armed) => match seen.target(armed.what) {
                Some(target) => {
                    self.task = Some((armed.serial, watch(armed.serial, target)));
                    Behind::Watched
                }
                None => {
                    self.rule.fired(armed.serial);
                    Behind::Unknown
                }
            },
        }
    }

    /// The line's capacity has changed.
    pub(super) fn has_changed(&mut self) {
        self.seen = None;
    }

    /// Tasks that no claim needs any more.
    pub(super) fn ended(&mut self) -> Ended {
        let capacity = if self.rule.is_waited_in() {
            None
        } else {
            self.rule.disarm();
            (self.seen, self.order) = (None, Order::default());
            self.capacity.take()
        };
        let serial = self.rule.armed().map(|armed| armed.serial);
        let task = self.task.take_if(|(watched, _)| Some(*watched) != serial);
        [task.map(|(_, task)| task), capacity]
    }
}
