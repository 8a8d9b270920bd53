//! What a client knows of its own claims: where each stands, which have their turn, and the lines in which one waits.
//!
//! One lock protects all of it, and each method is one atomic step. For each line in which a claim of ours waits there is
//! a [`LineView`] and at most one watch. With a mutex or a read-write lock the watch is on what our first waiter waits
//! for, by the rule: one claim of another client, so that a hand-off wakes one client. If that claim is our own, nothing
//! is watched. The claims ahead may have left without our notice, so they are looked at once the watch has fired. With
//! a semaphore the watch is on the line, and the view is a copy that every event keeps up to date: a resize or any
//! departure may matter.
//!
//! Whatever changes a view or a claim of ours is followed by [`State::follow`]: a claim has its turn if the view shows it
//! held *where it stands*; and what is worth watching then. All that stood ahead of a claim when it came is in each view
//! that shows it, and leaves a view only when it has left the line. So a view may be old, and a turn is right all the
//! same. The caller acts after the lock is released.

mod claim;
mod news;
mod own_line;
mod slots;
mod state;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use claim::{Stage, Stands};
use etcd_client::Event;
pub(crate) use news::{Command, News, Wanted};
pub(crate) use own_line::Aim;
use own_line::{Gap, LineCopy, OwnLine};
use tidelock_core::backend::{Claim, Moment};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token, Weight};
use tidelock_model::{Place, ShownClaim, ShownLine};

use self::claim::Own;
use self::state::State;
use crate::asked::FIRST_WATCH;
use crate::keys::SLOTS;
use crate::line_view::LineView;
use crate::void::Void;

/// The claims of one session, and the lines in which they wait.
#[derive(Debug)]
pub(crate) struct OwnClaims(Mutex<State>);

/// A line as its watch shows it, for one claim.
#[derive(Debug)]
pub(crate) enum Watched {
    /// The claim surely waits.
    Waits,
    Line(LineView, ShownLine),
}

/// What a look says of a claim of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Held(Token),
    Waits,
    /// It must not stand there.
    Misplaced,
}

/// What was known of a claim when its join began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinStart {
    Asked,
    /// Its leave came first, or has begun.
    Void,
}

/// What is known of a claim when its leave begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaveStart {
    pub(crate) kind: Option<Kind>,
    pub(crate) stage: Option<Stage>,
    /// It certainly stands nowhere.
    pub(crate) is_nowhere: bool,
    /// A join of it may still arrive.
    pub(crate) may_come: bool,
    /// No other claim of ours is in its line.
    pub(crate) is_last: bool,
}

/// How long after it was set a watch is trusted, if its turn is not near.
pub(crate) const SOON: Duration = Duration::from_millis(20);

impl OwnClaims {
    pub(crate) fn of(session: SessionId) -> Self {
        Self(Mutex::new(State {
            session,
            claims: HashMap::new(),
            lines: HashMap::new(),
            watches: HashMap::new(),
            last_watch: FIRST_WATCH,
            void: Void::default(),
            under_way: HashMap::new(),
            slots: HashMap::new(),
            numbered: HashMap::new(),
            has_idle: false,
            is_swept: false,
            is_closed: false,
        }))
    }

    /// A slot for a new claim in this line, and its number: the slot is the lower part of it.
    pub(crate) fn take_slot(&self, name: &Name, fresh: u64) -> (u64, u64) {
        let state = &mut *self.state();
        let slot = state.slots.entry(name.clone()).or_default().take();
        let number = fresh * SLOTS + slot % SLOTS;
        state.numbered.insert(number, false);
        (slot, number)
    }

    /// Whether core knows a claim that has this slot.
    pub(crate) fn is_in_use(&self, name: &Name, slot: u64) -> bool {
        self.state().slots.get(name).is_some_and(|slots| slots.is_in_use(slot))
    }

    /// Whether core knows the claim with this number, which has a slot.
    pub(crate) fn has_slot(&self, number: u64) -> bool {
        self.state().numbered.contains_key(&number)
    }

    /// Core has forgotten the claim with this number, which had that slot.
    pub(crate) fn give_back_slot(&self, name: &Name, slot: u64, number: u64) {
        let state = &mut *self.state();
        let is_unsure = state.numbered.remove(&number).unwrap_or(true);
        let may_come = is_unsure || state.under_way.contains_key(&number);
        let Some(slots) = state.slots.get_mut(name) else { return };
        slots.give_back(slot, !may_come);
        if slots.is_unused() {
            state.slots.remove(name);
        }
    }

    /// A join begins.
    pub(crate) fn begin(&self, claim: &Claim) -> JoinStart {
        let Claim { id, name, kind, .. } = claim;
        let (id, kind) = (*id, *kind);
        let state = &mut *self.state();
        if state.void.has(id.number) {
            return JoinStart::Void;
        }
        let new = || Own {
            kind,
            stage: Stage::Asked,
            was_sent: false,
            is_unsure: false,
            lightened: None,
            seen: 0,
            evicted: 0,
            is_leaving: false,
            has_not_left: false,
        };
        let own = state.claims.entry(id.number).or_insert_with(new);
        if own.is_leaving {
            // That leave may be carried out at any time: a claim that stood there again would lose its place, or its turn.
            return JoinStart::Void;
        }
        if own.stage == Stage::Nowhere {
            own.stage = Stage::Asked;
        }
        if !matches!(own.stage, Stage::Stands(Stands { is_held: true, .. })) {
            state.lines.entry(name.clone()).or_default().comes(id.number);
        }
        JoinStart::Asked
    }

    /// A join of this claim is about to be sent. False: it must not be, as its leave has begun, or it was forgotten.
    pub(crate) fn may_be_sent(&self, id: ClaimId) -> bool {
        let mut state = self.state();
        let Some(own) = state.claims.get_mut(&id.number).filter(|own| !own.is_leaving) else { return false };
        own.was_sent = true;
        *state.under_way.entry(id.number).or_default() += 1;
        true
    }

    /// A join of this claim was answered: where it stands, or None if that answer says nothing about it. `is_sure`: it
    /// will not arrive later.
    pub(crate) fn is_answered(
        &self,
        name: &Name,
        id: ClaimId,
        place: Option<(u64, Token)>,
        is_sure: bool,
    ) -> News {
        let mut state = self.state();
        state.arrives(id.number);
        if let Some(is_unsure) = state.numbered.get_mut(&id.number) {
            *is_unsure |= !is_sure;
        }
        let Some(own) = state.claims.get_mut(&id.number) else { return News::default() };
        own.is_unsure |= !is_sure;
        if let Some((order, token)) = place {
            state.stands_at(name, id.number, order, token);
        }
        state.follow(name)
    }

    /// The claim stands here.
    pub(crate) fn stands(&self, name: &Name, id: ClaimId, order: u64, token: Token) -> News {
        let mut state = self.state();
        state.stands_at(name, id.number, order, token);
        state.follow(name)
    }

    /// The claim is about to move: until the answer comes, its place is unknown. False: it has got its turn meanwhile, or
    /// is leaving.
    pub(crate) fn moves(&self, name: &Name, id: ClaimId) -> bool {
        let state = &mut *self.state();
        let Some(own) = state.claims.get_mut(&id.number) else { return false };
        match own.stage {
            Stage::Stands(Stands { is_held: false, order, .. }) if !own.is_leaving => {
                own.stage = Stage::Asked;
                if let Some(line) = state.lines.get_mut(name) {
                    line.places.remove(&order);
                }
                true
            }
            _ => false,
        }
    }

    pub(crate) fn stage(&self, id: ClaimId) -> Option<Stage> {
        self.state().claims.get(&id.number).map(|own| own.stage)
    }

    /// The claim was seen to have its turn at this place: its token. None: it stands elsewhere by now, or is leaving.
    pub(crate) fn hold(&self, name: &Name, id: ClaimId, order: u64) -> Option<Token> {
        self.state().hold(name, id, order).map(|(token, _)| token)
    }

    /// A look, which core has asked for, has found the claim there.
    pub(crate) fn looked(&self, name: &Name, claim: &ShownClaim, place: Place) -> Looked {
        let mut state = self.state();
        let Some(own) = state.claims.get(&claim.id.number) else { return Looked::Waits };
        match place {
            // An eviction may fail, and nobody repeats it: the claim would stand there, and get no turn. A leave that is
            // under way says itself what it finds.
            Place::Held | Place::Stranded | Place::AnotherSize(_) if own.has_not_left => Looked::Misplaced,
            Place::Held => {
                let held = state.hold(name, claim.id, claim.order);
                held.map_or(Looked::Waits, |(token, _)| Looked::Held(token))
            }
            // Before a resize it could have had its turn, but it did not look in time and now cannot. Or the line's
            // size in use has changed, and the claim must stand in line anew.
            Place::Stranded | Place::AnotherSize(_) if own.is_at(claim.order) => Looked::Misplaced,
            _ => Looked::Waits,
        }
    }

    /// The claim certainly has no place, and nobody gives it back: it is forgotten, unless a join of it may still arrive.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) -> News {
        let mut state = self.state();
        let may_come = state.may_come(id.number);
        if let Some(own) = state.claims.get_mut(&id.number).filter(|_| may_come) {
            own.stage = Stage::Nowhere;
            state.waits_no_more(name, id.number);
            return News::default();
        }
        drop(state);
        self.left(name, id, None)
    }

    /// The claim is leaving: it gets no turn any more.
    pub(crate) fn leaves(&self, name: &Name, id: ClaimId) -> LeaveStart {
        let mut state = self.state();
        let mut start =
            LeaveStart { kind: None, stage: None, is_nowhere: false, may_come: false, is_last: true };
        start.may_come = state.may_come(id.number);
        if let Some(own) = state.claims.get_mut(&id.number) {
            (own.is_leaving, own.has_not_left) = (true, false);
            start.kind = Some(own.kind);
            start.stage = Some(own.stage);
            start.is_nowhere = !start.may_come && (own.stage == Stage::Nowhere || !own.was_sent);
        }
        // Not by a look at each of them: a crowd that gives up at once would take quadratic time.
        if let Some(line) = state.lines.get_mut(name) {
            line.staying.remove(&id.number);
            start.is_last = line.staying.is_empty();
        }
        state.waits_no_more(name, id.number);
        start
    }

    /// A leave of this claim has failed.
    pub(crate) fn has_not_left(&self, id: ClaimId) {
        if let Some(own) = self.state().claims.get_mut(&id.number) {
            own.has_not_left = true;
        }
    }

    /// No join of this claim takes effect from now on. It is remembered for `memory`.
    pub(crate) fn make_void(&self, id: ClaimId, now: Moment, memory: Duration) {
        self.state().void.add(id.number, now, memory);
    }

    /// The store has a key that says that this claim is void.
    pub(crate) fn void_is_kept(&self, number: u64, now: Moment) {
        self.state().void.is_kept(number, now);
    }

    /// Void claims whose key in the store is not needed any more.
    pub(crate) fn outdated_voids(&self, now: Moment, age: Duration) -> Vec<u64> {
        let State { void, under_way, .. } = &mut *self.state();
        void.outdated(now, age, |number| under_way.contains_key(&number))
    }

    /// A claim has left and is forgotten. Others of ours may have their turn: with a mutex or a read-write lock this is
    /// seen at once. A semaphore may have been resized before the leave, so its event must be waited for. `at` is a
    /// revision at which it does not stand there. If none is known, its turn is passed on when that is looked at.
    pub(crate) fn left(&self, name: &Name, id: ClaimId, at: Option<i64>) -> News {
        let mut state = self.state();
        state.forget(name, id, at);
        state.follow(name)
    }

    /// The same. In the same transaction the next claim of ours there was looked at: where it stands, if it still does.
    pub(crate) fn left_before(
        &self,
        name: &Name,
        id: ClaimId,
        at: i64,
        next: (ClaimId, Option<u64>),
    ) -> News {
        let mut state = self.state();
        state.forget(name, id, Some(at));
        state.found(name, at, [next])
    }

    /// Which claim of ours may have its turn when one of them leaves that line.
    pub(crate) fn next(&self, name: &Name) -> Option<ClaimId> {
        let state = self.state();
        let line = state.lines.get(name).filter(|line| line.copy.is_some())?;
        let number = *line.places.values().find(|number| line.waiting.contains(number))?;
        let own = state.claims.get(&number)?;
        let may_be_next = own.kind != Kind::Semaphore && own.has_place();
        may_be_next.then_some(ClaimId { session: state.session, number })
    }

    /// An operator has evicted this claim of ours, at that revision.
    pub(crate) fn is_evicted(&self, name: &Name, id: ClaimId, at: i64) -> News {
        let mut state = self.state();
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.evicted = own.evicted.max(at);
        }
        state.found(name, at, [(id, None)])
    }

    /// A claim of ours has become a reader, at that revision.
    pub(crate) fn lightened(&self, name: &Name, id: ClaimId, at: i64) -> News {
        let mut state = self.state();
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.lightened = Some(at);
        }
        state.lighten_own(name);
        state.follow(name)
    }

    // Lines and their watches.

    /// Whether the line's watch shows all of it.
    pub(crate) fn is_watched(&self, name: &Name) -> bool {
        self.state().copy(name).is_some_and(LineCopy::is_whole)
    }

    /// The claim of another client that is watched in this line, ahead of our first one that waits there.
    pub(crate) fn watched_claim(&self, name: &Name) -> Option<ClaimId> {
        match self.state().copy(name)?.aim? {
            (Aim::Claim(id), _) => Some(id),
            (Aim::Line, _) => None,
        }
    }

    /// Whether a join of this claim need not read the line: its watch shows all of it, or one of our own claims waits there
    /// already for the same kind of lock.
    pub(crate) fn needs_no_read(&self, name: &Name, id: ClaimId) -> bool {
        let state = self.state();
        let kind = state.claims.get(&id.number).map(|own| own.kind);
        state.copy(name).is_some_and(LineCopy::is_whole)
            || kind.is_some_and(|kind| state.waits_behind_own(name, kind, u64::MAX))
    }

    /// Whether a claim that has just come to that place surely waits: one of our own waits ahead of it for the same kind
    /// of lock, with a watch.
    pub(crate) fn waits_behind_own(&self, claim: &Claim, order: u64) -> bool {
        let state = self.state();
        // It may have been evicted before its join was answered.
        state.claims.get(&claim.id.number).is_some_and(Own::has_place)
            && state.waits_behind_own(&claim.name, claim.kind, order)
    }

    /// The line of this claim of ours at that revision or later, as its watch shows it. None: it is not known yet.
    pub(crate) fn seen_at(&self, claim: &Claim, revision: i64) -> Option<Watched> {
        let state = self.state();
        // Some may have left later, by our own news. Whether others still stand behind them is not known then.
        let is_known =
            |copy: &&LineCopy| copy.is_whole() && copy.is_proved(0) && copy.view.revision >= revision;
        let copy = state.copy(&claim.name).filter(is_known)?;
        if state.surely_waits(claim, copy) {
            return Some(Watched::Waits);
        }
        Some(Watched::Line(copy.view.clone(), copy.view.shown(|id, order| state.held(id, order))))
    }

    /// The line in the form that the rule needs.
    pub(crate) fn shown(&self, view: &LineView) -> ShownLine {
        let state = self.state();
        view.shown(|id, order| state.held(id, order))
    }

    /// The line was read.
    pub(crate) fn saw(&self, name: &Name, view: &LineView, skip: usize) -> News {
        let state = &mut *self.state();
        let is_of_use = |line: &&mut OwnLine| line.copy.is_some() || !line.waiting.is_empty();
        let Some(line) = state.lines.get_mut(name).filter(is_of_use) else { return News::default() };
        match &mut line.copy {
            Some(copy) => copy.list(view),
            None if state.is_closed => return News::default(),
            None => line.copy = Some(LineCopy::of(view.clone(), skip)),
        }
        state.lighten_own(name);
        state.follow(name)
    }

    /// The read that was asked for failed.
    pub(crate) fn saw_nothing(&self, name: &Name) {
        if let Some(copy) = self.state().lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.is_reading = false;
        }
    }

    /// These claims were looked at, at that revision: the place and the weight of each, or None if it does not stand
    /// there any more.
    pub(crate) fn checked(
        &self,
        name: &Name,
        revision: i64,
        found: &[(ClaimId, Option<(u64, Weight)>)],
    ) -> News {
        let mut state = self.state();
        if let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.is_reading = false;
            copy.fired_for = None;
            // If another claim of ours is the first one by now, more may stand ahead of it.
            if copy.checking.take().is_some_and(|first| copy.first == Some(first)) {
                copy.checked = copy.checked.max(revision);
            }
            for (id, found) in found {
                match found {
                    None => copy.departs(*id, revision),
                    Some((_, Weight::ONE)) => copy.lightens(*id, revision),
                    Some(_) => {}
                }
            }
        }
        let places = found.iter().map(|(id, found)| (*id, found.map(|(order, _)| order)));
        state.found(name, revision, places)
    }

    /// The watch is set, and reports everything after this revision. None: nobody needs it any more.
    pub(crate) fn is_set(&self, watch: i64, revision: i64) -> Option<(Name, News)> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        state.watched(&name, watch)?.since = Some(revision);
        let news = state.follow(&name);
        Some((name, news))
    }

    /// That watch was set a while ago: what may have happened before is looked at now.
    pub(crate) fn gap_is_due(&self, watch: i64) -> Option<(Name, News)> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        state.watched(&name, watch)?.gap = Gap::Due;
        let news = state.follow(&name);
        Some((name, news))
    }

    /// Events of that watch. None: nobody needs it any more.
    pub(crate) fn happened(&self, watch: i64, events: &[Event]) -> Option<(Name, News)> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let copy = state.watched(&name, watch)?;
        let gone = match copy.aim {
            Some((Aim::Line, _)) if copy.is_whole() => {
                let left = copy.take_in(events);
                state.gone(&name, left)
            }
            Some((Aim::Line, _)) => {
                copy.pending.extend_from_slice(events);
                return Some((name, News::default()));
            }
            _ => {
                // Others ahead of our claim may have left before.
                copy.fired(events);
                Vec::new()
            }
        };
        let news = state.follow_without(&name, gone);
        Some((name, news))
    }

    /// The watch cannot go on from where it was: it begins anew, under another number. The server may not have forgotten
    /// the old one.
    pub(crate) fn begins_anew(&self, watch: i64) -> Option<Wanted> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let anew = state.last_watch + 1;
        let copy = state.watched(&name, watch)?;
        let (aim, _) = copy.aim?;
        copy.aim = Some((aim, anew));
        copy.gap = Gap::New;
        copy.since = None;
        copy.pending.clear();
        state.last_watch = anew;
        state.watches.remove(&watch);
        state.watches.insert(anew, name.clone());
        Some(Wanted { watch: anew, name, aim, from: 0 })
    }

    /// All watches that are needed, to set them on another stream: each goes on from what it has seen.
    pub(crate) fn all_wanted(&self) -> Vec<Wanted> {
        let state = &mut *self.state();
        let mut all = Vec::with_capacity(state.watches.len());
        for (watch, name) in &state.watches {
            let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) else { continue };
            let Some((aim, _)) = copy.aim else { continue };
            let from = copy.known().map_or(0, |known| known + 1);
            copy.since = None;
            copy.pending.clear();
            all.push(Wanted { watch: *watch, name: name.clone(), aim, from });
        }
        all
    }

    pub(crate) fn is_any_wanted(&self) -> bool {
        !self.state().watches.is_empty()
    }

    pub(crate) fn is_needed(&self, watch: i64) -> bool {
        self.state().watches.contains_key(&watch)
    }

    /// Whether to sweep now: watches may be idle, and nobody sweeps them.
    pub(crate) fn begins_to_sweep(&self) -> bool {
        let mut state = self.state();
        let begins = state.has_idle && !state.is_swept;
        state.is_swept |= begins;
        begins
    }

    /// Forgets lines that have been idle since the sweep before. Returns their watches. None: nothing is idle any more.
    pub(crate) fn sweep(&self) -> Option<Vec<i64>> {
        let state = &mut *self.state();
        let mut unneeded = Vec::new();
        state.has_idle = false;
        for line in state.lines.values_mut() {
            let Some(copy) = &mut line.copy else { continue };
            copy.idle = if line.waiting.is_empty() { copy.idle + 1 } else { 0 };
            state.has_idle |= copy.idle > 0;
            if copy.idle > 1 {
                if let Some((_, watch)) = copy.aim {
                    state.watches.remove(&watch);
                    unneeded.push(watch);
                }
                line.copy = None;
            }
        }
        state.lines.retain(|_, line| line.copy.is_some() || !line.claims.is_empty());
        state.is_swept = state.has_idle;
        state.is_swept.then_some(unneeded)
    }

    /// The session is over: nothing is watched any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.watches.clear();
        let lines = std::mem::take(&mut state.lines);
        drop(state);
        drop(lines);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
