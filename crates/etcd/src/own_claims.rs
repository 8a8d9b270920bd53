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
#[cfg(test)]
#[allow(warnings, clippy::all)]
mod simulated;
mod state;

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
use tidelock_model::ShownLine;

use self::claim::Own;
use self::state::State;
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
            last_watch: 0,
            void: Void::default(),
            under_way: HashMap::new(),
            has_idle: false,
            is_swept: false,
            is_closed: false,
        }))
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
            is_leaving: false,
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

    /// The claim certainly has no place, and nobody gives it back: it is forgotten, unless a join of it may still arrive.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) -> News {
        let mut state = self.state();
        let is_under_way = state.under_way.contains_key(&id.number);
        if let Some(own) = state.claims.get_mut(&id.number).filter(|own| is_under_way || own.is_unsure) {
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
        let is_under_way = state.under_way.contains_key(&id.number);
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.is_leaving = true;
            start.kind = Some(own.kind);
            start.stage = Some(own.stage);
            start.may_come = is_under_way || own.is_unsure;
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
        self.state().found(name, at, [(id, None)])
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
        self.state().waits_behind_own(&claim.name, claim.kind, order)
    }

    /// The line of this claim of ours at that revision or later, as its watch shows it. None: it is not known yet.
    pub(crate) fn seen_at(&self, claim: &Claim, revision: i64) -> Option<Watched> {
        let state = self.state();
        let copy =
            state.copy(&claim.name).filter(|copy| copy.is_whole() && copy.view.revision >= revision && copy.is_proved(0))?;
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

    /// The watch cannot go on from where it was: it begins anew.
    pub(crate) fn begins_anew(&self, watch: i64) -> Option<Wanted> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let copy = state.watched(&name, watch)?;
        let (aim, _) = copy.aim?;
        copy.since = None;
        copy.pending.clear();
        Some(Wanted { watch, name, aim, from: 0 })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ClaimKey;

    fn id(session: u64, number: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(session), number }
    }

    fn line(revision: i64, claims: &[(ClaimId, u64)]) -> LineView {
        let one = Weight::ONE;
        let key = |id| ClaimKey { id, kind: Kind::Mutex, declared: one, weight: one, is_rest: false };
        LineView::with(revision, claims.iter().map(|(id, order)| (key(*id), *order)))
    }

    fn own() -> (OwnClaims, Name) {
        (OwnClaims::of(SessionId::from_bits(1)), Name::new("n").unwrap())
    }

    fn begin(own: &OwnClaims, name: &Name, id: ClaimId) -> JoinStart {
        own.begin(&Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE))
    }

    fn join(own: &OwnClaims, name: &Name, id: ClaimId, order: u64) {
        begin(own, name, id);
        assert!(own.may_be_sent(id));
        drop(own.is_answered(name, id, Some((order, Token::from_order(order).unwrap())), true));
    }

    fn reader(id: ClaimId) -> ClaimKey {
        ClaimKey { id, kind: Kind::RwLock, declared: Weight::MAX, weight: Weight::ONE, is_rest: false }
    }

    /// A reader or a writer joins.
    fn join_as(own: &OwnClaims, name: &Name, (id, weight): (ClaimId, Weight), order: u64) {
        own.begin(&Claim::new(id, name.clone(), Kind::RwLock, weight, Weight::MAX));
        assert!(own.may_be_sent(id));
        drop(own.is_answered(name, id, Some((order, Token::from_order(order).unwrap())), true));
    }

    fn aim(own: &OwnClaims, name: &Name) -> Option<Aim> {
        own.state().copy(name)?.aim.map(|(aim, _)| aim)
    }

    #[test]
    fn a_claim_whose_leave_has_begun_is_neither_joined_again_nor_sent() {
        let (own, name) = own();
        let id = id(1, 1);
        assert_eq!(begin(&own, &name, id), JoinStart::Asked);
        assert_eq!(begin(&own, &name, id), JoinStart::Asked, "its answer was lost");
        assert!(own.may_be_sent(id));
        own.leaves(&name, id);
        assert_eq!(begin(&own, &name, id), JoinStart::Void);
        assert!(!own.may_be_sent(id), "it was queued where nobody could take it back");
    }

    #[test]
    fn a_refused_claim_is_forgotten() {
        let (own, name) = own();
        begin(&own, &name, id(1, 1));
        drop(own.nowhere(&name, id(1, 1)));
        assert!(own.state().claims.is_empty() && own.state().lines.is_empty());
    }

    /// What was looked at claim by claim is newer than a list that another lane takes in late.
    #[test]
    fn a_late_list_brings_nobody_back() {
        let (own, name) = own();
        let (a, c, first, second) = (id(2, 1), id(3, 1), id(1, 1), id(1, 2));
        join(&own, &name, first, 3);
        let watched = own.saw(&name, &line(3, &[(a, 1), (c, 2), (first, 3)]), 0).start.unwrap();
        assert_eq!(watched.aim, Aim::Claim(c));
        // C leaves at 5, before the watch on it is set.
        let (_, news) = own.is_set(watched.watch, 5).unwrap();
        assert_eq!(news.check, [a, c, first]);
        let found = [(a, Some((1, Weight::ONE))), (c, None), (first, Some((3, Weight::ONE)))];
        let watched = own.checked(&name, 5, &found).start.unwrap();
        drop(own.is_set(watched.watch, 5));
        join(&own, &name, second, 4);
        drop(own.saw(&name, &line(4, &[(a, 1), (c, 2), (first, 3), (second, 4)]), 0));
        assert_eq!(aim(&own, &name), Some(Aim::Claim(a)));
    }

    #[test]
    fn a_look_at_those_ahead_of_one_claim_says_nothing_of_those_ahead_of_another() {
        let (own, name) = own();
        let (w, x, first, y, second) = (id(2, 1), id(3, 1), id(1, 1), id(4, 1), id(1, 2));
        join(&own, &name, first, 3);
        join(&own, &name, second, 5);
        let all = [(w, 1), (x, 2), (first, 3), (y, 4), (second, 5)];
        let watched = own.saw(&name, &line(5, &all), 0).start.unwrap();
        let (_, news) = own.is_set(watched.watch, 6).unwrap();
        assert_eq!(news.check, [w, x, first]);
        // The first is given up (7), and Y leaves (8). Only then the look is carried out.
        own.leaves(&name, first);
        let watched = own.left(&name, first, Some(7)).start.unwrap();
        assert_eq!(watched.aim, Aim::Claim(y));
        let found = [(w, Some((1, Weight::ONE))), (x, Some((2, Weight::ONE))), (first, None)];
        drop(own.checked(&name, 8, &found));
        let (_, news) = own.is_set(watched.watch, 8).unwrap();
        let due = news.gap.and_then(|watch| own.gap_is_due(watch));
        assert!(!news.check.is_empty() || due.is_some(), "Y has left, and nobody looks");
    }

    /// It watches the claim ahead, and not its own key.
    #[test]
    fn an_evicted_waiter_gets_no_turn() {
        let (own, name) = own();
        let (blocker, mine) = (id(2, 1), id(1, 1));
        join(&own, &name, mine, 2);
        drop(own.saw(&name, &line(2, &[(blocker, 1), (mine, 2)]), 0));
        // Evicted at 3. The blocker leaves at 4.
        let news = own.checked(&name, 4, &[(blocker, None)]);
        assert!(news.held.is_empty(), "nobody has looked whether it still stands there");
        assert_eq!((news.check, news.since), (vec![mine], 4));
        let news = own.checked(&name, 4, &[(mine, None)]);
        assert_eq!((news.held.len(), news.gone), (0, vec![mine]));
    }

    #[test]
    fn a_waiter_that_stood_when_those_ahead_had_left_gets_its_turn() {
        let (own, name) = own();
        let (blocker, mine) = (id(2, 1), id(1, 1));
        join(&own, &name, mine, 2);
        drop(own.saw(&name, &line(2, &[(blocker, 1), (mine, 2)]), 0));
        let news = own.checked(&name, 4, &[(blocker, None), (mine, Some((2, Weight::ONE)))]);
        assert_eq!(news.held.len(), 1);
    }

    /// A leave of ours looks for the next one of ours in its own transaction.
    #[test]
    fn a_turn_is_passed_on_only_to_a_claim_that_stands() {
        for place in [Some(2), None] {
            let (own, name) = own();
            let (first, second) = (id(1, 1), id(1, 2));
            join(&own, &name, first, 1);
            join(&own, &name, second, 2);
            drop(own.saw(&name, &line(2, &[(first, 1), (second, 2)]), 0));
            own.leaves(&name, first);
            assert_eq!(own.next(&name), Some(second));
            let news = own.left_before(&name, first, 3, (second, place));
            let is_held = place.is_some();
            assert_eq!((news.held.len(), news.gone.len()), (usize::from(is_held), usize::from(!is_held)));
        }
    }

    #[test]
    fn a_waiter_that_a_list_should_show_is_gone() {
        let (own, name) = own();
        let mine = id(1, 1);
        join(&own, &name, mine, 30);
        let mut all: Vec<(ClaimId, u64)> = (1..30).map(|k| (id(2, k), k)).collect();
        all.push((mine, 30));
        let watched = own.saw(&name, &line(30, &all), 0).start.unwrap();
        drop(own.is_set(watched.watch, 30));
        all.pop(); // it was evicted at 31
        let news = own.saw(&name, &line(31, &all), 0);
        assert_eq!((news.read, news.gone), (false, vec![mine]));
    }

    #[test]
    fn an_event_that_a_list_has_overtaken_asks_for_nothing() {
        let (own, name) = own();
        let mine = id(1, 1);
        join_as(&own, &name, (mine, Weight::MAX), 30);
        let view = |revision, last: Weight| {
            let mut all: Vec<_> = (1..29).map(|k| (reader(id(2, k)), k)).collect();
            all.push((ClaimKey { weight: last, ..reader(id(2, 29)) }, 29));
            all.push((ClaimKey { weight: Weight::MAX, ..reader(mine) }, 30));
            LineView::with(revision, all)
        };
        let watched = own.saw(&name, &view(30, Weight::MAX), 0).start.unwrap();
        drop(own.is_set(watched.watch, 30));
        // The watched claim is downgraded at 31. A list of 32 comes first, and then the event, which says nothing new.
        assert!(own.saw(&name, &view(32, Weight::ONE), 0).start.is_none());
        let (_, news) = own.happened(watched.watch, &[]).unwrap();
        assert!(!news.read && news.check.is_empty());
    }

    /// Our first waiter has its turn again and again, behind this many other clients.
    fn aim_of_a_busy_line(others: u64) -> Option<Aim> {
        let (own, name) = own();
        for k in 1..=8 {
            let mine = id(1, k);
            join(&own, &name, mine, 100 * k);
            let revision = i64::try_from(100 * k).unwrap();
            let mut all: Vec<_> = (0..others).map(|of| (id(2 + of, k), 100 * (k - 1) + 1 + of)).collect();
            all.push((mine, 100 * k));
            drop(own.saw(&name, &line(revision, &all), 0));
            if k < 8 {
                assert!(own.hold(&name, mine, 100 * k).is_some());
            }
        }
        aim(&own, &name)
    }

    #[test]
    fn a_line_that_is_passed_on_among_few_is_watched_as_a_whole() {
        assert_eq!(aim_of_a_busy_line(3), Some(Aim::Line));
        assert_eq!(aim_of_a_busy_line(40), Some(Aim::Claim(id(41, 8))));
    }

    #[test]
    fn claims_that_never_wait_leave_nothing() {
        let (own, name) = own();
        for k in 1..=100 {
            let (mine, last) = (id(1, k), id(1, k - 1));
            let revision = i64::try_from(2 * k).unwrap();
            join_as(&own, &name, (mine, Weight::ONE), 2 * k);
            let all = [(reader(last), 2 * k - 2), (reader(mine), 2 * k)];
            drop(own.saw(&name, &LineView::with(revision, all), 0));
            assert!(own.hold(&name, mine, 2 * k).is_some());
            own.leaves(&name, last);
            drop(own.left(&name, last, Some(revision + 1)));
        }
        assert!(own.state().lines[&name].places.is_empty());
    }

    /// Attack F3.
    #[test]
    fn a_look_before_the_next_one_was_first_says_nothing_of_those_ahead_of_it() {
        let (own, name) = own();
        let (w, y, first, z, second) = (id(2, 1), id(3, 1), id(1, 1), id(4, 1), id(1, 2));
        join(&own, &name, first, 4);
        join(&own, &name, second, 6);
        let all = [(w, 1), (y, 2), (first, 4), (z, 5), (second, 6)];
        let watched = own.saw(&name, &line(6, &all), 0).start.unwrap();
        assert_eq!(watched.aim, Aim::Claim(y));
        // Z gives up at 7, W and Y leave at 8 and 9, before the watch on Y is set.
        let (_, news) = own.is_set(watched.watch, 9).unwrap();
        assert_eq!(news.check, [w, y, first]);
        let news = own.checked(&name, 9, &[(w, None), (y, None), (first, Some((4, Weight::ONE)))]);
        assert_eq!(news.held.len(), 1);
        let watched = news.start.unwrap();
        assert_eq!(watched.aim, Aim::Claim(z));
        let (_, news) = own.is_set(watched.watch, 9).unwrap();
        assert!(!news.check.is_empty() || news.gap.is_some() || news.read, "Z has left, and nobody looks");
    }

    /// Attack F4.
    #[test]
    fn a_gap_in_a_busy_line_is_closed_for_those_that_came_later() {
        let (own, name) = own();
        let (a, first, second) = (id(2, 1), id(1, 1), id(1, 2));
        join(&own, &name, first, 2);
        drop(own.saw(&name, &line(2, &[(a, 1), (first, 2)]), 0));
        own.state().lines.get_mut(&name).unwrap().copy.as_mut().unwrap().is_busy = true;
        begin(&own, &name, second);
        assert!(own.may_be_sent(second) && own.needs_no_read(&name, second));
        let news = own.is_answered(&name, second, Some((4, Token::from_order(4).unwrap())), true);
        let watched = news.start.unwrap();
        assert_eq!(watched.aim, Aim::Line);
        // The first gives up at 5, and A leaves at 6. Only then the watch is set.
        own.leaves(&name, first);
        let gave_up = own.left(&name, first, Some(5));
        let (_, news) = own.is_set(watched.watch, 6).unwrap();
        assert!(gave_up.read || news.read, "the events wait for a list, and nobody reads it");
    }

    /// Attack F5.
    #[test]
    fn a_look_from_before_a_claim_came_does_not_take_it_out() {
        let (own, name) = own();
        let (a, first, second) = (id(2, 1), id(1, 1), id(1, 2));
        join(&own, &name, first, 3);
        let watched = own.saw(&name, &line(3, &[(a, 1), (first, 3)]), 0).start.unwrap();
        drop(own.is_set(watched.watch, 5));
        join(&own, &name, second, 7);
        drop(own.saw(&name, &line(7, &[(a, 1), (first, 3), (second, 7)]), 0));
        // A member that is behind.
        let found = [(a, Some((1, Weight::ONE))), (first, Some((3, Weight::ONE))), (second, None)];
        drop(own.checked(&name, 6, &found));
        own.leaves(&name, first);
        let news = own.left(&name, first, Some(8));
        assert_eq!(news.gone, [], "it stands, and is told gone");
    }

    /// Attack F6.
    #[test]
    fn a_list_with_one_that_has_departed_proves_nothing_for_those_behind() {
        let (own, name) = own();
        let (before, dropped, second) = (id(1, 1), id(1, 2), id(1, 3));
        join(&own, &name, before, 2);
        assert_eq!(own.saw(&name, &line(2, &[(before, 2)]), 0).held.len(), 1);
        own.leaves(&name, before);
        drop(own.left(&name, before, Some(3)));
        // Nobody waits for the answer of the dropped one. The second is deleted by hand at 19.
        join(&own, &name, dropped, 16);
        join(&own, &name, second, 18);
        own.leaves(&name, dropped);
        drop(own.left(&name, dropped, Some(20)));
        let news = own.saw(&name, &line(18, &[(dropped, 16), (second, 18)]), 0);
        assert!(news.held.is_empty(), "nobody has looked whether it stands at 20");
        assert_eq!((news.check, news.since), (vec![second], 20));
    }

    /// Attack F8.
    #[test]
    fn a_watched_line_that_is_not_proved_is_not_shown() {
        let (own, name) = own();
        let (holder, second) = (id(1, 1), id(1, 2));
        join(&own, &name, holder, 1);
        drop(own.saw(&name, &line(1, &[(holder, 1)]), 0));
        join(&own, &name, second, 2);
        drop(own.saw(&name, &line(2, &[(holder, 1), (second, 2)]), 0));
        own.state().lines.get_mut(&name).unwrap().copy.as_mut().unwrap().is_busy = true;
        let watched = own.left(&name, id(1, 99), None).start.unwrap();
        drop(own.is_set(watched.watch, 2));
        // The second is deleted by hand at 3, and the holder leaves at 4.
        own.leaves(&name, holder);
        drop(own.left(&name, holder, Some(4)));
        let claim = Claim::new(second, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
        let seen = own.seen_at(&claim, 2);
        assert!(seen.is_none(), "it would be settled as held: {seen:?}");
    }
}
