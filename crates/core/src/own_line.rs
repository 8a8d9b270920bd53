//! What a client knows of its own claims in a line that its store shows, and what it watches for them.
//!
//! Whoever stands behind the first of ours that waits cannot be held before that one, so one watch serves all of them.
//! Where it would be on a claim of our own nothing is watched in the store: that one's leave passes by here anyway.
//!
//! Lists arrive in any order and of any age, while our own claims leave, become lighter and stand in line anew. So all
//! of it is under one lock, and each call decides by what is known then: [`OwnLine::stamp`] is read before a list is
//! sent, and a list that was sent before a claim of ours changed says nothing about waiting for that one. What others do
//! between a list and a watch, the watch finds out: it is set by a read, which is compared with what was seen. How often
//! a claim was touched no list shows; so what such a read finds is news, and no older list is believed after it.
//!
//! A list shows a claim where it stood when the list was made. So a turn is one *in a place*, and nobody has it from a
//! place where it does not stand any more: those who stand there now may have been let in meanwhile.
//!
//! Who joins behind one of ours that waits and is watched for need not look: that watch stands until somebody looks.
//!
//! A client that shares the lock with whatever else it knows of the line decides nothing between two calls.

#[cfg(all(test, not(tidelock_loom)))]
mod explored;

use std::collections::{BTreeMap, BTreeSet};

use tidelock_model::{Place, ShownLine, Watch, places, watch};

use crate::{ClaimId, SessionId};

/// The claims of one client in one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnLine {
    session: SessionId,
    /// How often a claim of ours has changed.
    stamp: u64,
    claims: BTreeMap<u64, Own>,
    /// Those of them that wait.
    waiting: BTreeSet<u64>,
    armed: Option<Armed>,
    last_serial: u64,
    /// Of others' claims that were found to have been touched: how often, and the stamp of when that was found.
    touched: BTreeMap<ClaimId, (u64, u64)>,
}

/// One claim of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own {
    /// The stamp of when it last changed.
    changed: u64,
    /// Where it stands, by the store's own order. None: the store has not answered yet.
    place: Option<u64>,
    /// It was asked for in another place, and that is not answered.
    is_moving: bool,
}

/// What is watched for the first of ours that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Armed {
    /// Which watch: each has another.
    pub serial: u64,
    /// For whom.
    pub first: u64,
    /// What.
    pub what: Watch,
}

/// What a client has to do when it has seen a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Nothing: nobody of ours waits, or what is watched is worth it still, or is a claim of our own.
    Kept,
    /// This is to be watched in the store, and nothing else any more.
    Watch(Armed),
    /// The list is too old to tell.
    Look,
}

impl OwnLine {
    /// The line of a client that has no claim in it yet. No list that was sent for an earlier one of that name may have a
    /// stamp as high as this.
    #[must_use]
    pub fn new(session: SessionId, stamp: u64) -> Self {
        let (claims, waiting, touched) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { session, stamp, claims, waiting, armed: None, last_serial: 0, touched }
    }

    /// To be read before a list is sent.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// A claim of ours asks for its place.
    pub fn comes(&mut self, number: u64) {
        self.claims.insert(number, Own { changed: self.stamp, place: None, is_moving: false });
        self.waiting.insert(number);
    }

    /// The store has answered where it stands. Says whether to look: it stood elsewhere, and somebody waited for it there.
    #[must_use]
    pub fn stands(&mut self, number: u64, place: u64) -> bool {
        let Some(own) = self.claims.get_mut(&number) else { return false };
        own.is_moving = false;
        let stood = own.place.replace(place);
        stood.is_some_and(|stood| stood != place) && self.changed(number)
    }

    /// It is asked for in another place: until that is answered, nobody knows where it stands.
    pub fn moves(&mut self, number: u64) {
        if let Some(own) = self.claims.get_mut(&number) {
            own.is_moving = true;
        }
    }

    /// A list shows it held in that place. False: it does not stand there any more, and that list says nothing of it.
    #[must_use]
    pub fn holds(&mut self, number: u64, place: u64) -> bool {
        let is_there = |own: &Own| !own.is_moving && own.place == Some(place);
        let believed = self.claims.get(&number).is_some_and(is_there)
            || cfg!(tidelock_fault = "a_turn_where_it_stood_is_believed");
        if believed {
            self.waits_no_more(number);
        }
        believed
    }

    /// It is held, or on its way out: nothing is watched for it any more.
    pub fn waits_no_more(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Whether it is on its way to its turn, and not on its way out.
    #[must_use]
    pub fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains(&number)
    }

    /// Whether any of ours is.
    #[must_use]
    pub fn is_waited_in(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether we have no claim here at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Whether that claim of ours has not left yet.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.claims.contains_key(&number)
    }

    /// Those of ours that wait.
    #[must_use]
    pub fn waiting(&self) -> &BTreeSet<u64> {
        &self.waiting
    }

    /// What is watched.
    #[must_use]
    pub fn armed(&self) -> Option<&Armed> {
        self.armed.as_ref()
    }

    /// The line was seen as this, in a list that was sent when the stamp was that.
    ///
    /// Whoever of ours is held there is told so first; whoever has to stand elsewhere is passed over.
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

    /// Watches that in the store, unless it does already.
    pub fn aim(&mut self, first: u64, what: Watch) -> Aim {
        let is_it = |armed: &Armed| armed.first == first && armed.what == what;
        match self.armed.filter(is_it) {
            Some(_) => Aim::Kept,
            None => Aim::Watch(self.arm(first, what)),
        }
    }

    /// Nothing was learnt, and this is worth waiting for all the same: a claim of our own that is there.
    pub fn arm(&mut self, first: u64, what: Watch) -> Armed {
        self.last_serial += 1;
        *self.armed.insert(Armed { serial: self.last_serial, first, what })
    }

    /// The watch of that number, on another's claim, is set, and the claim was touched so often. False: that is news, and
    /// somebody has to look.
    #[must_use]
    pub fn is_set(&mut self, serial: u64, touches: u64) -> bool {
        let watched = self.armed.filter(|armed| armed.serial == serial).map(|armed| armed.what);
        let Some(Watch::Claim(other)) = watched else { return true };
        let known = self.touched.get(&other).map_or(0, |(touches, _)| *touches);
        if known == touches || cfg!(tidelock_fault = "a_touch_before_the_watch_is_forgotten") {
            return true;
        }
        self.stamp += 1;
        self.touched.insert(other, (touches, self.stamp));
        self.fired(serial);
        false
    }

    /// What was watched under this number has stirred, or cannot be watched.
    pub fn fired(&mut self, serial: u64) {
        self.armed.take_if(|armed| armed.serial == serial);
    }

    /// Nothing is watched any more.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// A claim of ours has left. Says whether to look: somebody of ours waited for it, or it was the first.
    #[must_use]
    pub fn left(&mut self, number: u64) -> bool {
        self.claims.remove(&number);
        self.waiting.remove(&number);
        self.stirs(number)
    }

    /// A claim of ours is lighter, or is asked for again. Says whether to look.
    #[must_use]
    pub fn changed(&mut self, number: u64) -> bool {
        self.stamp += 1;
        if let Some(own) = self.claims.get_mut(&number)
            && !cfg!(tidelock_fault = "a_change_of_ones_own_is_forgotten")
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
            && !cfg!(tidelock_fault = "an_older_list_than_a_touch_is_believed")
    }

    /// Whether it has changed, or left, since the stamp was this.
    fn has_changed_since(&self, number: u64, stamp: u64) -> bool {
        let has_left = !cfg!(tidelock_fault = "a_leave_of_ones_own_is_forgotten");
        self.claims.get(&number).map_or(has_left, |own| own.changed > stamp)
    }
}
