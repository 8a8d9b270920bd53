//! What a client knows of its own claims: where each stands, which have their turn, and the lines in which one waits.
//!
//! One lock protects all of it, and each method is one atomic step. For each line in which a claim of ours waits there is
//! a [`LineView`], which the line's one watch keeps up to date. Whatever changes a view or a claim of ours is followed by
//! [`State::turns`]: a claim has its turn if the view shows it held *where it stands*. The caller tells core after the
//! lock is released.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::Event;
use tidelock_core::backend::{Claim, Grant, Moment};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token};
use tidelock_model::ShownLine;

use crate::line_view::LineView;
use crate::void::Void;

/// The claims of one session, and the lines in which they wait.
#[derive(Debug)]
pub(crate) struct OwnClaims(Mutex<State>);

#[derive(Debug)]
struct State {
    session: SessionId,
    claims: HashMap<u64, Own>,
    lines: HashMap<Name, OwnLine>,
    watches: HashMap<i64, Name>,
    last_watch: i64,
    void: Void,
    /// Some line's watch may not be needed any more.
    has_idle: bool,
    is_swept: bool,
    is_closed: bool,
}

/// One claim of ours.
#[derive(Debug)]
struct Own {
    kind: Kind,
    stage: Stage,
    /// Whether a join of it was ever sent.
    was_sent: bool,
    /// How many of its joins are on their way.
    under_way: u32,
    /// A join of it got no answer, and may arrive at any time.
    is_unsure: bool,
    is_leaving: bool,
}

/// How far a claim of ours has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its place is not known: it was asked for, or it is moving.
    Asked,
    /// It stands at this place.
    Stands(Stands),
    /// It certainly has no place.
    Nowhere,
}

/// A claim that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) order: u64,
    pub(crate) token: Token,
    /// Whether it was seen to have its turn. Nothing takes that back.
    pub(crate) is_held: bool,
}

/// A line in which we have a claim.
#[derive(Debug, Default)]
struct OwnLine {
    claims: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    copy: Option<Copy>,
}

/// A copy of a line, kept by a watch.
#[derive(Debug)]
struct Copy {
    watch: i64,
    view: LineView,
    /// The watch reports everything after this revision. None: it is not set at the moment.
    since: Option<i64>,
    /// Events after a gap in the view, until a list closes it.
    pending: Vec<Event>,
    skip: usize,
    /// How many sweeps have found that no claim of ours waits there.
    idle: u8,
}

/// What was known of a claim when its join began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinStart {
    Asked,
    /// Its leave came first.
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

/// What to tell core after a step.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) held: Vec<(ClaimId, Grant)>,
    pub(crate) gone: Vec<ClaimId>,
    /// A claim of ours may have to stand elsewhere: look.
    pub(crate) look: bool,
}

/// A watch to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) watch: i64,
    pub(crate) name: Name,
    /// The first revision to report. 0: from now on.
    pub(crate) from: i64,
}

impl OwnClaims {
    pub(crate) fn of(session: SessionId) -> Self {
        Self(Mutex::new(State {
            session,
            claims: HashMap::new(),
            lines: HashMap::new(),
            watches: HashMap::new(),
            last_watch: 0,
            void: Void::default(),
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
            under_way: 0,
            is_unsure: false,
            is_leaving: false,
        };
        let own = state.claims.entry(id.number).or_insert_with(new);
        if own.stage == Stage::Nowhere {
            own.stage = Stage::Asked;
        }
        if !matches!(own.stage, Stage::Stands(Stands { is_held: true, .. })) {
            let line = state.lines.entry(name.clone()).or_default();
            line.claims.insert(id.number);
            line.waiting.insert(id.number);
        }
        JoinStart::Asked
    }

    /// A join of this claim is sent.
    pub(crate) fn is_sent(&self, id: ClaimId) {
        if let Some(own) = self.state().claims.get_mut(&id.number) {
            own.under_way += 1;
            own.was_sent = true;
        }
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
        let Some(own) = state.claims.get_mut(&id.number) else { return News::default() };
        own.under_way = own.under_way.saturating_sub(1);
        own.is_unsure |= !is_sure;
        if let Some((order, token)) = place {
            own.stands_at(order, token);
        }
        state.turns(name)
    }

    /// The claim stands here.
    pub(crate) fn stands(&self, name: &Name, id: ClaimId, order: u64, token: Token) -> News {
        let mut state = self.state();
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.stands_at(order, token);
        }
        state.turns(name)
    }

    /// The claim is about to move: until the answer comes, its place is unknown. False: it has got its turn meanwhile, or
    /// is leaving.
    pub(crate) fn moves(&self, id: ClaimId) -> bool {
        let mut state = self.state();
        let Some(own) = state.claims.get_mut(&id.number) else { return false };
        match own.stage {
            Stage::Stands(Stands { is_held: false, .. }) if !own.is_leaving => {
                own.stage = Stage::Asked;
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

    /// The claim certainly has no place. Its leave, which follows, need not be sent.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) {
        let mut state = self.state();
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.stage = Stage::Nowhere;
        }
        state.waits_no_more(name, id.number);
    }

    /// The claim is leaving: it gets no turn any more.
    pub(crate) fn leaves(&self, name: &Name, id: ClaimId) -> LeaveStart {
        let mut state = self.state();
        let mut start =
            LeaveStart { kind: None, stage: None, is_nowhere: false, may_come: false, is_last: false };
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.is_leaving = true;
            start.kind = Some(own.kind);
            start.stage = Some(own.stage);
            start.may_come = own.under_way > 0 || own.is_unsure;
            start.is_nowhere = !start.may_come && (own.stage == Stage::Nowhere || !own.was_sent);
        }
        let others = |line: &OwnLine| line.claims.iter().any(|number| *number != id.number);
        start.is_last = !state.lines.get(name).is_some_and(others);
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
    pub(crate) fn outdated_voids(&self, now: Moment, age: Duration, most: usize) -> Vec<u64> {
        self.state().void.outdated(now, age, most)
    }

    /// A claim has left and is forgotten. Others of ours may have their turn: with a mutex or a read-write lock this is
    /// seen at once. A semaphore may have been resized before the leave, so its event must be waited for.
    pub(crate) fn left(&self, name: &Name, id: ClaimId) -> News {
        let mut state = self.state();
        state.claims.remove(&id.number);
        state.waits_no_more(name, id.number);
        if let Some(line) = state.lines.get_mut(name) {
            line.claims.remove(&id.number);
            let is_resizable = |view: &LineView| view.find(id).is_some_and(|one| one.kind == Kind::Semaphore);
            if let Some(copy) = line.copy.as_mut().filter(|copy| !is_resizable(&copy.view)) {
                copy.view.remove(id);
            }
        }
        state.forget_if_empty(name);
        state.turns(name)
    }

    /// A claim of ours has become a reader.
    pub(crate) fn lightened(&self, name: &Name, id: ClaimId) -> News {
        let mut state = self.state();
        if let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.view.lighten(id);
        }
        state.turns(name)
    }

    // Lines and their watches.

    /// Whether a join of this line need not read it: the line's watch shows all of it.
    pub(crate) fn is_watched(&self, name: &Name) -> bool {
        self.state().copy(name).is_some_and(Copy::is_whole)
    }

    /// Whether a claim that has just come to that place surely waits: one of our own waits ahead of it for the same kind
    /// of lock.
    pub(crate) fn waits_behind_own(&self, claim: &Claim, order: u64) -> bool {
        let state = self.state();
        let Some(line) = state.lines.get(&claim.name) else { return false };
        let Some(copy) = line.copy.as_ref().filter(|copy| copy.is_whole()) else { return false };
        if claim.kind == Kind::Semaphore || copy.view.first().is_some_and(|first| first.kind != claim.kind) {
            return false;
        }
        let is_ahead = |number: &u64| {
            let id = ClaimId { session: state.session, number: *number };
            copy.view.place(id).is_some_and(|place| place < order)
                && copy.view.find(id).is_some_and(|mine| mine.kind == claim.kind)
        };
        line.waiting.iter().take(2).any(is_ahead)
    }

    /// The line of this claim at that revision or later, as far as it matters for the claim. None: it is not known yet.
    pub(crate) fn seen_at(&self, name: &Name, revision: i64) -> Option<(LineView, ShownLine)> {
        let state = self.state();
        let copy = state.copy(name).filter(|copy| copy.is_whole() && copy.view.revision >= revision)?;
        Some((copy.view.clone(), copy.view.shown(|id, order| state.held(id, order))))
    }

    /// The line in the form that the rule needs.
    pub(crate) fn shown(&self, view: &LineView) -> ShownLine {
        let state = self.state();
        view.shown(|id, order| state.held(id, order))
    }

    /// The line was read. Returns what follows, and the watch to set if a claim of ours waits in a line without one.
    pub(crate) fn saw(&self, name: &Name, view: &LineView, skip: usize) -> (News, Option<Wanted>) {
        let state = &mut *self.state();
        let is_of_use = |line: &&mut OwnLine| line.copy.is_some() || !line.waiting.is_empty();
        let Some(line) = state.lines.get_mut(name).filter(is_of_use) else { return (News::default(), None) };
        let wanted = match &mut line.copy {
            Some(copy) => {
                copy.list(view);
                None
            }
            None if state.is_closed => None,
            None => {
                state.last_watch += 1;
                let watch = state.last_watch;
                line.copy =
                    Some(Copy { watch, view: view.clone(), since: None, pending: Vec::new(), skip, idle: 0 });
                state.watches.insert(watch, name.clone());
                Some(Wanted { watch, name: name.clone(), from: 0 })
            }
        };
        (state.turns(name), wanted)
    }

    /// The watch is set, and reports everything after this revision. Returns whether the line must be read: something may
    /// have happened in between.
    pub(crate) fn is_set(&self, watch: i64, revision: i64) -> Option<(Name, bool)> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let copy = state.lines.get_mut(&name)?.copy.as_mut().filter(|copy| copy.watch == watch)?;
        copy.since = Some(revision);
        let is_whole = copy.is_whole();
        Some((name, !is_whole))
    }

    /// Events of that watch. None: nobody needs it any more.
    pub(crate) fn happened(&self, watch: i64, events: &[Event]) -> Option<(Name, News)> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let copy = state.lines.get_mut(&name)?.copy.as_mut()?;
        if !copy.is_whole() {
            copy.pending.extend_from_slice(events);
            return Some((name, News::default()));
        }
        let left = copy.take_in(events);
        let gone = state.gone(&name, left);
        let mut news = state.turns(&name);
        news.gone.extend(gone);
        Some((name, news))
    }

    /// The watch cannot go on from where it was: it begins anew.
    pub(crate) fn begins_anew(&self, watch: i64) -> Option<Wanted> {
        let mut state = self.state();
        let name = state.watches.get(&watch)?.clone();
        let copy = state.lines.get_mut(&name)?.copy.as_mut()?;
        copy.since = None;
        copy.pending.clear();
        Some(Wanted { watch, name, from: 0 })
    }

    /// All watches that are needed, to set them on another stream: each goes on from what it has seen.
    pub(crate) fn all_wanted(&self) -> Vec<Wanted> {
        let state = &mut *self.state();
        let mut all = Vec::with_capacity(state.watches.len());
        for (watch, name) in &state.watches {
            let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) else { continue };
            let from = if copy.is_whole() { copy.view.revision + 1 } else { 0 };
            copy.since = None;
            copy.pending.clear();
            all.push(Wanted { watch: *watch, name: name.clone(), from });
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
                state.watches.remove(&copy.watch);
                unneeded.push(copy.watch);
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

impl Own {
    fn stands_at(&mut self, order: u64, token: Token) {
        let is_there = matches!(self.stage, Stage::Stands(stands) if stands.order == order);
        if !is_there {
            self.stage = Stage::Stands(Stands { order, token, is_held: false });
        }
    }
}

impl Copy {
    /// Whether the view and the watch have no gap between them.
    fn is_whole(&self) -> bool {
        self.since.is_some_and(|since| self.view.revision >= since)
    }

    fn take_in(&mut self, events: &[Event]) -> Vec<(ClaimId, u64)> {
        let left = events.iter().filter_map(|event| self.view.happens(event, self.skip)).collect();
        let revisions = events.iter().filter_map(|event| event.kv().map(etcd_client::KeyValue::mod_revision));
        self.view.revision = revisions.fold(self.view.revision, i64::max);
        left
    }

    fn list(&mut self, view: &LineView) {
        if view.revision <= self.view.revision {
            return;
        }
        self.view = view.clone();
        if self.is_whole() {
            let pending = std::mem::take(&mut self.pending);
            self.take_in(&pending);
        }
    }
}

impl State {
    fn copy(&self, name: &Name) -> Option<&Copy> {
        self.lines.get(name)?.copy.as_ref()
    }

    /// The token of a claim of ours that was seen to have its turn at this place.
    fn held(&self, id: ClaimId, order: u64) -> Option<Token> {
        if id.session != self.session {
            return None;
        }
        match self.claims.get(&id.number)?.stage {
            Stage::Stands(stands) if stands.is_held && stands.order == order => Some(stands.token),
            _ => None,
        }
    }

    /// The claim has its turn at this place: its token, and whether that is news.
    fn hold(&mut self, name: &Name, id: ClaimId, order: u64) -> Option<(Token, bool)> {
        let own = self.claims.get_mut(&id.number).filter(|own| !own.is_leaving)?;
        let Stage::Stands(stands) = &mut own.stage else { return None };
        if stands.order != order {
            return None;
        }
        let is_news = !std::mem::replace(&mut stands.is_held, true);
        let token = stands.token;
        self.waits_no_more(name, id.number);
        Some((token, is_news))
    }

    /// Which of our waiting claims have their turn now.
    fn turns(&mut self, name: &Name) -> News {
        let mut news = News::default();
        let Some(line) = self.lines.get(name).filter(|line| !line.waiting.is_empty()) else { return news };
        // Without a watch there may be a gap, and a view is older than its revision says: but all that stood ahead of a
        // claim when it came is in it, so a claim that is held in it has its turn.
        let Some(copy) = &line.copy else { return news };
        let front = copy.view.front(|id, order| self.held(id, order));
        let type_of = |claim: &tidelock_model::ShownClaim| (claim.kind, front.size(claim));
        let first = front.claims.first().map(type_of);
        let mut held = Vec::new();
        for (claim, is_held) in front.each().filter(|(claim, _)| claim.id.session == self.session) {
            if is_held {
                held.push((claim.id, claim.order, front.size(claim)));
            } else if claim.kind == Kind::Semaphore && first.is_some_and(|first| first.0 == claim.kind && first != type_of(claim)) {
                news.look |= line.waiting.contains(&claim.id.number);
            }
        }
        for (id, order, capacity) in held {
            if let Some((token, true)) = self.hold(name, id, order) {
                news.held.push((id, Grant { token, capacity }));
            }
        }
        news
    }

    /// Those of these claims that were ours, stood there, and were not leaving: somebody else took them out.
    fn gone(&mut self, name: &Name, left: Vec<(ClaimId, u64)>) -> Vec<ClaimId> {
        let mut gone = Vec::new();
        for (id, order) in left.into_iter().filter(|(id, _)| id.session == self.session) {
            let stood = |own: &Own| {
                !own.is_leaving && matches!(own.stage, Stage::Stands(stands) if stands.order == order)
            };
            if self.claims.get(&id.number).is_some_and(stood) {
                self.claims.remove(&id.number);
                if let Some(line) = self.lines.get_mut(name) {
                    line.claims.remove(&id.number);
                    line.waiting.remove(&id.number);
                }
                gone.push(id);
            }
        }
        self.has_idle |= !gone.is_empty();
        gone
    }

    fn waits_no_more(&mut self, name: &Name, number: u64) {
        if let Some(line) = self.lines.get_mut(name) {
            line.waiting.remove(&number);
            self.has_idle |= line.waiting.is_empty() && line.copy.is_some();
        }
    }

    fn forget_if_empty(&mut self, name: &Name) {
        let is_empty = |line: &OwnLine| line.claims.is_empty() && line.copy.is_none();
        if self.lines.get(name).is_some_and(is_empty) {
            self.lines.remove(name);
        }
    }
}
