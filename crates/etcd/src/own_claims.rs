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

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::Event;
use tidelock_core::backend::{Claim, Grant, Moment};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token, Weight};
use tidelock_model::{ShownLine, Watch, watch};

use crate::line_view::{LineView, Standing};
use crate::resized::Resized;
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
    /// How many joins of a claim are on their way, by its number. A caller's runtime may stand still with one.
    under_way: HashMap<u64, u32>,
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
    /// Where claims of ours have come to stand, in order. One that waits no more, or has moved, is passed over.
    places: BTreeMap<u64, u64>,
    copy: Option<Copy>,
}

/// What is known of a line, and what is watched in it.
#[derive(Debug)]
struct Copy {
    /// What is watched, and the number of that watch.
    aim: Option<(Aim, i64)>,
    view: LineView,
    /// The watch reports everything after this revision. None: it is not set at the moment.
    since: Option<i64>,
    /// The claims ahead of our first waiter were looked at, one by one, at this revision.
    checked: i64,
    /// The claim of ours for which the watch has fired, while it is not known whether it has its turn.
    fired_for: Option<ClaimId>,
    /// The claim of ours that the watch is for.
    first: Option<ClaimId>,
    /// Whether a read that will be taken in is under way.
    is_reading: bool,
    gap: Gap,
    /// Claims of ours that have left since it was requested, and at which revision.
    departed: Vec<(ClaimId, i64)>,
    /// Events after a gap in the view, until a list closes it.
    pending: Vec<Event>,
    skip: usize,
    /// How many sweeps have found that no claim of ours waits there.
    idle: u8,
}

/// What is done about the time between the view and the watch, if something may have happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    New,
    /// It is looked into if the watch reports nothing soon.
    Awaited,
    Due,
}

/// What is worth watching in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Everything that happens there.
    Line,
    /// This claim of another client.
    Claim(ClaimId),
}

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

/// What to do after a step: what to tell core, what to watch, and what to read.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) held: Vec<(ClaimId, Grant)>,
    pub(crate) gone: Vec<ClaimId>,
    /// A claim of ours may have to stand elsewhere: look.
    pub(crate) look: bool,
    pub(crate) start: Option<Wanted>,
    pub(crate) stop: Option<i64>,
    /// The line must be read.
    pub(crate) read: bool,
    /// Whether these claims still stand must be looked at.
    pub(crate) check: Vec<ClaimId>,
    /// The same for what this watch is about, unless it reports something within [`SOON`].
    pub(crate) gap: Option<i64>,
}

/// A watch to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) watch: i64,
    pub(crate) name: Name,
    pub(crate) aim: Aim,
    /// The first revision to report. 0: from now on.
    pub(crate) from: i64,
}

/// What the watch stream is to do.
#[derive(Debug)]
pub(crate) enum Command {
    Start(Wanted),
    Stop(i64),
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
        let new = || Own { kind, stage: Stage::Asked, was_sent: false, is_unsure: false, is_leaving: false };
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
        let mut state = self.state();
        *state.under_way.entry(id.number).or_default() += 1;
        if let Some(own) = state.claims.get_mut(&id.number) {
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
        let is_under_way = state.under_way.contains_key(&id.number);
        if let Some(own) = state.claims.get_mut(&id.number) {
            own.is_leaving = true;
            start.kind = Some(own.kind);
            start.stage = Some(own.stage);
            start.may_come = is_under_way || own.is_unsure;
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
    pub(crate) fn outdated_voids(&self, now: Moment, age: Duration) -> Vec<u64> {
        let State { void, under_way, .. } = &mut *self.state();
        void.outdated(now, age, |number| under_way.contains_key(&number))
    }

    /// A claim has left and is forgotten. Others of ours may have their turn: with a mutex or a read-write lock this is
    /// seen at once. A semaphore may have been resized before the leave, so its event must be waited for. `at` is the
    /// revision after which it does not stand there, if that is known.
    pub(crate) fn left(&self, name: &Name, id: ClaimId, at: Option<i64>) -> News {
        let mut state = self.state();
        state.claims.remove(&id.number);
        state.waits_no_more(name, id.number);
        if let Some(line) = state.lines.get_mut(name) {
            line.claims.remove(&id.number);
            let is_resizable = |view: &LineView| view.find(id).is_some_and(|one| one.kind == Kind::Semaphore);
            if let Some(copy) = line.copy.as_mut().filter(|copy| !is_resizable(&copy.view)) {
                copy.view.remove(id);
                copy.departed.extend(at.filter(|_| copy.is_reading).map(|at| (id, at)));
            }
        }
        state.forget_if_empty(name);
        state.follow(name)
    }

    /// A claim of ours has become a reader.
    pub(crate) fn lightened(&self, name: &Name, id: ClaimId) -> News {
        let mut state = self.state();
        if let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.view.lighten(id);
        }
        state.follow(name)
    }

    // Lines and their watches.

    /// Whether the line's watch shows all of it.
    pub(crate) fn is_watched(&self, name: &Name) -> bool {
        self.state().copy(name).is_some_and(Copy::is_whole)
    }

    /// Whether a join of this claim need not read the line: its watch shows all of it, or one of our own claims waits there
    /// already for the same kind of lock.
    pub(crate) fn needs_no_read(&self, name: &Name, id: ClaimId) -> bool {
        let state = self.state();
        let kind = state.claims.get(&id.number).map(|own| own.kind);
        state.copy(name).is_some_and(Copy::is_whole)
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
            state.copy(&claim.name).filter(|copy| copy.is_whole() && copy.view.revision >= revision)?;
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
            None => line.copy = Some(Copy::of(view.clone(), skip)),
        }
        state.follow(name)
    }

    /// The read that was asked for failed.
    pub(crate) fn saw_nothing(&self, name: &Name) {
        if let Some(copy) = self.state().lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.is_reading = false;
        }
    }

    /// These claims were looked at, at that revision: the weight of each, or None if it does not stand there any more.
    pub(crate) fn checked(&self, name: &Name, revision: i64, found: &[(ClaimId, Option<Weight>)]) -> News {
        let mut state = self.state();
        if let Some(copy) = state.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.is_reading = false;
            copy.fired_for = None;
            copy.checked = copy.checked.max(revision);
            for (id, weight) in found {
                match weight {
                    None => drop(copy.view.remove(*id)),
                    Some(Weight::ONE) => copy.view.lighten(*id),
                    Some(_) => {}
                }
            }
        }
        state.follow(name)
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
        let mut news = state.follow(&name);
        news.gone.extend(gone);
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

/// How many claims ahead are looked at one by one. If more are ahead, the line is read.
const MOST_CHECKED: usize = 16;
/// With so many other claims ahead a turn may come at any moment.
const NEAR: usize = 2;
/// The longest line that is read for two claims of ours together.
const SHORT: usize = 64;
/// How long after it was set a watch is trusted, if its turn is not near.
pub(crate) const SOON: Duration = Duration::from_millis(20);

impl Own {
    fn has_place(&self) -> bool {
        matches!(self.stage, Stage::Stands(stands) if !stands.is_held) && !self.is_leaving
    }

    fn is_at(&self, order: u64) -> bool {
        self.has_place() && matches!(self.stage, Stage::Stands(stands) if stands.order == order)
    }

    fn stands_at(&mut self, order: u64, token: Token) {
        let is_there = matches!(self.stage, Stage::Stands(stands) if stands.order == order);
        if !is_there {
            self.stage = Stage::Stands(Stands { order, token, is_held: false });
        }
    }
}

impl Copy {
    fn of(view: LineView, skip: usize) -> Self {
        let checked = view.revision;
        Self {
            aim: None,
            view,
            since: None,
            checked,
            fired_for: None,
            first: None,
            is_reading: false,
            gap: Gap::New,
            departed: Vec::new(),
            pending: Vec::new(),
            skip,
            idle: 0,
        }
    }

    /// Whether the whole line is watched, and there is no gap between the view and the watch.
    fn is_whole(&self) -> bool {
        matches!(self.aim, Some((Aim::Line, _)))
            && self.since.is_some_and(|since| self.view.revision >= since)
    }

    /// The revision up to which all that is watched is known. None: there may be a gap.
    fn known(&self) -> Option<i64> {
        let since = self.since?;
        match self.aim? {
            (Aim::Line, _) => self.is_whole().then_some(self.view.revision),
            (Aim::Claim(_), _) => (self.checked >= since).then_some(self.checked),
        }
    }

    /// The watched claim has left, or has become lighter. The view shows the rest of the line as it was.
    fn fired(&mut self, events: &[Event]) {
        let revision = self.view.revision;
        for event in events {
            self.view.happens(event, self.skip);
        }
        self.view.revision = revision;
        self.fired_for = self.first;
    }

    fn take_in(&mut self, events: &[Event]) -> Vec<(ClaimId, u64)> {
        let left = events.iter().filter_map(|event| self.view.happens(event, self.skip)).collect();
        let revisions = events.iter().filter_map(|event| event.kv().map(etcd_client::KeyValue::mod_revision));
        self.view.revision = revisions.fold(self.view.revision, i64::max);
        left
    }

    fn list(&mut self, view: &LineView) {
        self.is_reading = false;
        let departed = std::mem::take(&mut self.departed);
        if view.revision <= self.view.revision {
            return;
        }
        self.view = view.clone();
        for (id, _) in departed.iter().filter(|(_, at)| *at > view.revision) {
            self.view.remove(*id);
        }
        self.fired_for = None;
        self.checked = self.checked.max(view.revision);
        if self.is_whole() {
            let pending = std::mem::take(&mut self.pending);
            self.take_in(&pending);
        }
    }
}

impl State {
    /// A join of this claim is not on its way any more.
    fn arrives(&mut self, number: u64) {
        if let Some(count) = self.under_way.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&number);
            }
        }
    }

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

    /// Whether one of our own waits ahead of this claim for permits of the same size, the one in use. Then so does it, and
    /// the line need not be looked through.
    fn surely_waits(&self, claim: &Claim, copy: &Copy) -> bool {
        let resized = copy.view.resized().map(Resized::shown);
        let size = |order: u64, standing: &Standing| {
            resized
                .filter(|resized| order < resized.before)
                .map_or(standing.declared, |resized| resized.capacity)
        };
        let standing = |id| Some((copy.view.place(id)?, copy.view.find(id)?));
        let (Some((_, mine)), Some(line), Some((first, of))) =
            (standing(claim.id), self.lines.get(&claim.name), copy.view.each().next())
        else {
            return false;
        };
        let place = copy.view.place(claim.id).unwrap_or_default();
        let in_use = (of.kind, size(first, of));
        let is_alike = |(order, one): (u64, &Standing)| (one.kind, size(order, one)) == in_use;
        let is_ahead = |number: &u64| {
            let id = ClaimId { session: self.session, number: *number };
            standing(id).is_some_and(|(order, other)| {
                order < place
                    && is_alike((order, other))
                    && self.claims.get(number).is_some_and(|own| own.is_at(order))
            })
        };
        is_alike((place, mine))
            && mine.weight <= in_use.1
            && self.claims.get(&claim.id.number).is_some_and(|own| own.is_at(place))
            && line.waiting.iter().take(2).any(is_ahead)
    }

    fn watched(&mut self, name: &Name, watch: i64) -> Option<&mut Copy> {
        let copy = self.lines.get_mut(name)?.copy.as_mut()?;
        (copy.aim?.1 == watch).then_some(copy)
    }

    fn waits_behind_own(&self, name: &Name, kind: Kind, order: u64) -> bool {
        let Some(line) = self.lines.get(name) else { return false };
        let Some(copy) = &line.copy else { return false };
        if kind == Kind::Semaphore || copy.view.first().is_some_and(|first| first.kind != kind) {
            return false;
        }
        let is_ahead = |number: &u64| {
            let id = ClaimId { session: self.session, number: *number };
            copy.view.place(id).is_some_and(|place| place < order)
                && copy.view.find(id).is_some_and(|mine| mine.kind == kind)
        };
        // The first may be the asking claim itself.
        line.waiting.iter().take(2).any(is_ahead)
    }

    /// What follows from what is known of a line now.
    fn follow(&mut self, name: &Name) -> News {
        let mut news = self.turns(name);
        let Some(aim) = self.aim(name, &mut news) else { return news };
        let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) else { return news };
        if copy.aim.map(|(aim, _)| aim) == aim {
            return news;
        }
        copy.since = None;
        copy.gap = Gap::New;
        copy.pending.clear();
        if let Some((_, old)) = copy.aim.take() {
            self.watches.remove(&old);
            news.stop = Some(old);
        }
        if let Some(aim) = aim {
            self.last_watch += 1;
            copy.aim = Some((aim, self.last_watch));
            self.watches.insert(self.last_watch, name.clone());
            news.start = Some(Wanted { watch: self.last_watch, name: name.clone(), aim, from: 0 });
        }
        news
    }

    /// What to watch in a line: `Some(None)` is nothing. None: that stays as it is, or a read will tell.
    fn aim(&mut self, name: &Name, news: &mut News) -> Option<Option<Aim>> {
        let session = self.session;
        let (first, is_late) = self.first_waiting(name)?;
        let copy = self.lines.get(name)?.copy.as_ref()?;
        let Some((order, first)) = first else {
            // The claims of ours that wait came later than this view: it must be read, unless a watch will show them.
            let is_late = is_late && copy.aim.is_none_or(|(aim, _)| aim != Aim::Line);
            news.read = is_late && !copy.is_reading;
            if news.read
                && let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut())
            {
                copy.is_reading = true;
            }
            return None;
        };
        if first.kind == Kind::Semaphore {
            let is_gap =
                copy.aim.is_some_and(|(aim, _)| aim == Aim::Line) && copy.since.is_some() && !copy.is_whole();
            news.read = is_gap && !copy.is_reading;
            if news.read
                && let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut())
            {
                copy.is_reading = true;
            }
            return Some(Some(Aim::Line));
        }
        let shown = copy.view.shown_up_to(order, |id, order| self.held(id, order));
        let aim = match watch(&shown, first.id)? {
            Watch::Line => Some(Aim::Line),
            // Its leave passes through here.
            Watch::Claim(own) if own.session == session && self.claims.contains_key(&own.number) => None,
            Watch::Claim(other) => Some(Aim::Claim(other)),
        };
        let is_same = copy.aim.map(|(aim, _)| aim) == aim;
        let has_fired = copy.fired_for == Some(first.id);
        let is_gap = is_same && copy.since.is_some_and(|since| copy.checked < since);
        if (has_fired || is_gap) && !copy.is_reading {
            let ahead = shown.claims.iter().map(|claim| claim.id);
            let is_other = |id: &ClaimId| id.session != session || !self.claims.contains_key(&id.number);
            let ahead: Vec<ClaimId> = ahead.filter(is_other).collect();
            let is_read = has_fired && self.wants_a_list_soon(name, order);
            match ahead.len() {
                0 => {}
                // Its turn is not near, and will hardly have come in the gap.
                many if !has_fired && many > NEAR && copy.gap != Gap::Due => {
                    news.gap = copy.aim.map(|(_, watch)| watch).filter(|_| copy.gap == Gap::New);
                }
                _ if is_read => news.read = true,
                1..=MOST_CHECKED => news.check = ahead,
                _ => news.read = true,
            }
            if let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
                copy.is_reading = news.read || !news.check.is_empty();
                if news.gap.is_some() {
                    copy.gap = Gap::Awaited;
                }
            }
            if has_fired && (news.read || !news.check.is_empty()) {
                return None; // what to watch next is known after that
            }
        }
        if let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            copy.first = Some(first.id);
        }
        Some(aim)
    }

    /// Whether the line is short, and a claim of ours waits behind the one in this place that the view does not show: when
    /// the first has its turn, a list is needed for the next one.
    fn wants_a_list_soon(&self, name: &Name, order: u64) -> bool {
        let Some(line) = self.lines.get(name) else { return false };
        let Some(copy) = line.copy.as_ref().filter(|copy| copy.view.len() <= SHORT) else { return false };
        let mut next = line.places.range(order + 1..).filter(|(_, number)| line.waiting.contains(number));
        let is_unknown = |(place, number): (&u64, &u64)| {
            copy.view.place(ClaimId { session: self.session, number: *number }) != Some(*place)
        };
        next.next().is_some_and(is_unknown)
    }

    /// Our first claim that waits in the view of a line, and whether any waits that the view does not show. None: nothing
    /// is known of that line, or none waits there.
    fn first_waiting(&mut self, name: &Name) -> Option<(Option<(u64, Standing)>, bool)> {
        let session = self.session;
        let line = self.lines.get_mut(name).filter(|line| !line.waiting.is_empty() && !self.is_closed)?;
        let copy = line.copy.as_ref()?;
        let (mut first, mut is_late, mut stale) = (None, false, Vec::new());
        for (order, number) in &line.places {
            let waits =
                line.waiting.contains(number) && self.claims.get(number).is_some_and(|own| own.is_at(*order));
            if !waits {
                stale.push(*order);
                continue;
            }
            let id = ClaimId { session, number: *number };
            if copy.view.place(id) == Some(*order) {
                first = copy.view.find(id).map(|standing| (*order, *standing));
                break;
            }
            is_late = true;
            if *order > copy.view.revision.unsigned_abs() {
                break; // and so are all that come behind it
            }
        }
        for order in stale {
            line.places.remove(&order);
        }
        Some((first, is_late))
    }

    fn stands_at(&mut self, name: &Name, number: u64, order: u64, token: Token) {
        let Some(own) = self.claims.get_mut(&number) else { return };
        own.stands_at(order, token);
        if let Some(line) = self.lines.get_mut(name).filter(|line| line.waiting.contains(&number)) {
            line.places.insert(order, number);
        }
    }

    /// Which of our waiting claims have their turn now.
    fn turns(&mut self, name: &Name) -> News {
        let mut news = News::default();
        let Some(line) = self.lines.get(name).filter(|line| !line.waiting.is_empty()) else { return news };
        let Some(copy) = &line.copy else { return news };
        let front = copy.view.front(|id, order| self.held(id, order));
        let type_of = |claim: &tidelock_model::ShownClaim| (claim.kind, front.size(claim));
        let first = front.claims.first().map(type_of);
        let mut held = Vec::new();
        for (claim, is_held) in front.each().filter(|(claim, _)| claim.id.session == self.session) {
            if is_held {
                held.push((claim.id, claim.order, front.size(claim)));
            } else if claim.kind == Kind::Semaphore
                && first.is_some_and(|first| first.0 == claim.kind && first != type_of(claim))
            {
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
