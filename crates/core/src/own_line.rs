//! What a client knows of its own claims in a line that its store shows, and what it watches for them.
//!
//! A claim behind our first waiting claim cannot be held before that one, so one watch serves all our claims. If the
//! claim to be watched is our own, nothing is watched in the store: its leave passes through here anyway.
//!
//! Lists arrive in any order and at any age, while our own claims leave, become lighter and stand in line anew. So
//! all of this is under one lock, and each call decides by what is known at that time. [`OwnLine::stamp`] is read
//! before a list is requested. A list that was requested before one of our claims changed cannot tell whether to wait
//! for that claim. What other clients do between a list and a watch is found out by the watch: it is set by a read,
//! which is compared with what the list showed. No list shows how often a claim was touched. So what such a read
//! finds is news, and no older list is believed after it.
//!
//! A list shows a claim where it stood when the list was made. So a turn belongs to a *place*: a claim has no turn
//! from a place where it no longer stands, because the claims that stand there now may have been let in since.
//!
//! A claim that joins behind one of our waiting claims with a watch need not look: that watch stands until somebody
//! looks.
//!
//! If a client keeps this under the same lock as all else that it knows of the line, no decision falls between two
//! calls.

#[cfg(all(test, not(tidelock_loom)))]
mod explored;

use std::collections::{BTreeMap, BTreeSet};

use tidelock_model::{Place, ShownLine, Watch, places, watch};

use crate::{ClaimId, SessionId};

/// The claims of one client in one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnLine {
    session: SessionId,
    /// How often one of our claims has changed.
    stamp: u64,
    claims: BTreeMap<u64, Own>,
    /// Those of our claims that wait.
    waiting: BTreeSet<u64>,
    armed: Option<Armed>,
    last_serial: u64,
    /// Claims of other clients that were found touched: how often, and the stamp when that was found.
    touched: BTreeMap<ClaimId, (u64, u64)>,
}

/// One of our claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own {
    /// The stamp of its last change.
    changed: u64,
    /// Its place in the store's order. `None`: the store has not answered yet.
    place: Option<u64>,
    /// Whether another place was requested for it and not answered yet.
    is_moving: bool,
}

/// The watch for our first waiting claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Armed {
    /// The number of the watch. No two are equal.
    pub serial: u64,
    /// The claim that it is for.
    pub first: u64,
    /// What is watched.
    pub what: Watch,
}

/// What a client has to do after it has seen a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Nothing: none of our claims waits, or the current watch is still right, or the claim to watch is our own.
    Kept,
    /// Watch this in the store, and nothing else.
    Watch(Armed),
    /// Look again: the list is too old to tell.
    Look,
}

impl OwnLine {
    /// The line of a client that has no claim in it yet. `stamp` must be higher than that of any list that was
    /// requested for an earlier line of this name.
    #[must_use]
    pub fn new(session: SessionId, stamp: u64) -> Self {
        let (claims, waiting, touched) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { session, stamp, claims, waiting, armed: None, last_serial: 0, touched }
    }

    /// The stamp. Read it before you request a list.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// One of our claims asks for its place.
    pub fn comes(&mut self, number: u64) {
        self.claims.insert(number, Own { changed: self.stamp, place: None, is_moving: false });
        self.waiting.insert(number);
    }

    /// The store has answered where the claim stands. Returns whether to look: the claim stood elsewhere before, and
    /// another of our claims waited for it there.
    #[must_use]
    pub fn stands(&mut self, number: u64, place: u64) -> bool {
        let Some(own) = self.claims.get_mut(&number) else { return false };
        own.is_moving = false;
        let stood = own.place.replace(place);
        stood.is_some_and(|stood| stood != place) && self.changed(number)
    }

    /// Another place was requested for the claim: until the answer nobody knows where it stands.
    pub fn moves(&mut self, number: u64) {
        if let Some(own) = self.claims.get_mut(&number) {
            own.is_moving = true;
        }
    }

    /// A list shows the claim held in this place. Returns `false` if it no longer stands there; then that list says
    /// nothing about it.
    #[must_use]
    pub fn holds(&mut self, number: u64, place: u64) -> bool {
        let is_there = |own: &Own| !own.is_moving && own.place == Some(place);
        let believed =
            self.claims.get(&number).is_some_and(is_there) || seeded!("a_turn_where_it_stood_is_believed");
        if believed {
            self.waits_no_more(number);
        }
        believed
    }

    /// The claim is held or on its way out: nothing is watched for it any more.
    pub fn waits_no_more(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Whether the claim is on its way to its turn, and not on its way out.
    #[must_use]
    pub fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains(&number)
    }

    /// Whether any of our claims is waiting.
    #[must_use]
    pub fn is_waited_in(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether we have no claim here at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Whether this claim of ours has not left yet.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.claims.contains_key(&number)
    }

    /// Those of our claims that wait.
    #[must_use]
    pub fn waiting(&self) -> &BTreeSet<u64> {
        &self.waiting
    }

    /// The current watch.
    #[must_use]
    pub fn armed(&self) -> Option<&Armed> {
        self.armed.as_ref()
    }

    /// Takes in a list of the line that was requested at this stamp.
    ///
    /// First report those of our claims that the list shows as held, by [`OwnLine::holds`]. Claims that have to stand
    /// elsewhere are passed over.
    pub fn seen(&mut self, line: &ShownLine, stamp: u64) -> Aim {
        self.touched.retain(|id, _| line.claim(*id).is_some());
        let is_passed = |place| matches!(place, Place::Held | Place::Stranded | Place::AnotherSize(_));
        let mut ours = places(line)
            .filter(|(claim, _)| claim.id.session == self.session && self.is_waiting(claim.id.number));
        let first = ours.find(|(_, place)| !is_passed(*place)).map(|(claim, _)| claim.id);
        drop(ours);
        let Some((first, what)) = first.and_then(|first| Some((first, watch(line, first)?))) else {
            return Aim::Kept;
        };
        if self.has_changed_since(first.number, stamp) {
            return Aim::Look;
        }
        match what {
            Watch::Claim(other) if self.was_touched_since(other, stamp) => Aim::Look,
            Watch::Claim(own) if own.session == self.session => {
                match self.has_changed_since(own.number, stamp) {
                    true => Aim::Look,
                    false => {
                        self.arm(first.number, what);
                        Aim::Kept
                    }
                }
            }
            what => self.aim(first.number, what),
        }
    }

    /// Watches this in the store, unless it is watched already.
    pub fn aim(&mut self, first: u64, what: Watch) -> Aim {
        let is_it = |armed: &Armed| armed.first == first && armed.what == what;
        match self.armed.filter(is_it) {
            Some(_) => Aim::Kept,
            None => Aim::Watch(self.arm(first, what)),
        }
    }

    /// Sets the watch without a list: nothing was learnt, and this is worth waiting for all the same, a claim of our
    /// own that is there.
    pub fn arm(&mut self, first: u64, what: Watch) -> Armed {
        self.last_serial += 1;
        *self.armed.insert(Armed { serial: self.last_serial, first, what })
    }

    /// The watch with this number, on another client's claim, is set, and the claim was touched this many times.
    /// Returns `false` if that is news: then look again.
    #[must_use]
    pub fn is_set(&mut self, serial: u64, touches: u64) -> bool {
        let watched = self.armed.filter(|armed| armed.serial == serial).map(|armed| armed.what);
        let Some(Watch::Claim(other)) = watched else { return true };
        let known = self.touched.get(&other).map_or(0, |(touches, _)| *touches);
        if known == touches || seeded!("a_touch_before_the_watch_is_forgotten") {
            return true;
        }
        self.stamp += 1;
        self.touched.insert(other, (touches, self.stamp));
        self.fired(serial);
        false
    }

    /// The watch with this number has fired, or cannot be set.
    pub fn fired(&mut self, serial: u64) {
        self.armed.take_if(|armed| armed.serial == serial);
    }

    /// Nothing is watched any more.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// One of our claims has left. Returns whether to look: another of our claims waited for it, or it was the first.
    #[must_use]
    pub fn left(&mut self, number: u64) -> bool {
        self.claims.remove(&number);
        self.waiting.remove(&number);
        self.stirs(number)
    }

    /// One of our claims became lighter, or was requested again. Returns whether to look.
    #[must_use]
    pub fn changed(&mut self, number: u64) -> bool {
        self.stamp += 1;
        if let Some(own) = self.claims.get_mut(&number)
            && !seeded!("a_change_of_ones_own_is_forgotten")
        {
            own.changed = self.stamp;
        }
        self.stirs(number)
    }

    fn stirs(&mut self, number: u64) -> bool {
        let own = Watch::Claim(ClaimId { session: self.session, number });
        let is_it = |armed: &mut Armed| armed.what == own || armed.first == number;
        let is_stirred = self.armed.take_if(is_it).is_some();
        is_stirred && self.is_waited_in()
    }

    fn was_touched_since(&self, other: ClaimId, stamp: u64) -> bool {
        let found_later = |(_, found): &(u64, u64)| *found > stamp;
        self.touched.get(&other).is_some_and(found_later)
            && !seeded!("an_older_list_than_a_touch_is_believed")
    }

    /// Whether the claim has changed or left since this stamp.
    fn has_changed_since(&self, number: u64, stamp: u64) -> bool {
        let has_left = !seeded!("a_leave_of_ones_own_is_forgotten");
        self.claims.get(&number).map_or(has_left, |own| own.changed > stamp)
    }
}
