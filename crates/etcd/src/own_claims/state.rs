//! The state behind [`OwnClaims`](super::OwnClaims), and what follows whenever it changes.

use std::collections::HashMap;

use tidelock_core::backend::{Claim, Grant};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token, Weight};
use tidelock_model::{Watch, watch};

use super::claim::{Own, Stage};
use super::news::{News, Wanted};
use super::own_line::{Aim, Gap, LineCopy, OwnLine};
use super::slots::Slots;
use crate::line_view::Standing;
use crate::resized::Resized;
use crate::void::Void;

/// How many claims ahead are looked at one by one. If more are ahead, the line is read.
const MOST_CHECKED: usize = 16;
/// With so many other claims ahead a turn may come at any moment.
const NEAR: usize = 2;
/// The longest line that is read for two claims of ours together.
const SHORT: usize = 64;

/// Our first claim that waits in a view, whether any waits that the view does not show, and those that it should show.
type Sought = (Option<(u64, Standing)>, bool, Vec<(ClaimId, u64)>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) session: SessionId,
    pub(super) claims: HashMap<u64, Own>,
    pub(super) lines: HashMap<Name, OwnLine>,
    pub(super) watches: HashMap<i64, Name>,
    pub(super) last_watch: i64,
    pub(super) void: Void,
    /// How many joins of a claim are on their way, by its number. A caller's runtime may stand still with one.
    pub(super) under_way: HashMap<u64, u32>,
    /// The slots of our claims, line by line.
    pub(super) slots: HashMap<Name, Slots>,
    /// The numbers of the claims that have a slot, and whether a join of them got no answer.
    pub(super) numbered: HashMap<u64, bool>,
    /// Some line's watch may not be needed any more.
    pub(super) has_idle: bool,
    pub(super) is_swept: bool,
    pub(super) is_closed: bool,
}

impl State {
    /// A join of this claim is not on its way any more.
    pub(super) fn arrives(&mut self, number: u64) {
        if let Some(count) = self.under_way.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&number);
            }
        }
    }

    /// Whether a join of this claim may still arrive. That is known for as long as core knows the claim, also if it was
    /// gone here meanwhile.
    pub(super) fn may_come(&self, number: u64) -> bool {
        self.under_way.contains_key(&number)
            || self.numbered.get(&number).is_some_and(|is_unsure| *is_unsure)
            || self.claims.get(&number).is_some_and(|own| own.is_unsure)
    }

    /// The claims of ours that have become readers are that in each view, however old it is.
    pub(super) fn lighten_own(&mut self, name: &Name) {
        let Some(line) = self.lines.get_mut(name) else { return };
        let Some(copy) = &mut line.copy else { return };
        for number in &line.claims {
            if let Some(at) = self.claims.get(number).and_then(|own| own.lightened) {
                copy.lightens(ClaimId { session: self.session, number: *number }, at);
            }
        }
    }

    pub(super) fn copy(&self, name: &Name) -> Option<&LineCopy> {
        self.lines.get(name)?.copy.as_ref()
    }

    /// The token of a claim of ours that was seen to have its turn at this place.
    pub(super) fn held(&self, id: ClaimId, order: u64) -> Option<Token> {
        if id.session != self.session {
            return None;
        }
        match self.claims.get(&id.number)?.stage {
            Stage::Stands(stands) if stands.is_held && stands.order == order => Some(stands.token),
            _ => None,
        }
    }

    /// The claim has its turn at this place: its token, and whether that is news.
    pub(super) fn hold(&mut self, name: &Name, id: ClaimId, order: u64) -> Option<(Token, bool)> {
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
    pub(super) fn surely_waits(&self, claim: &Claim, copy: &LineCopy) -> bool {
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

    pub(super) fn watched(&mut self, name: &Name, watch: i64) -> Option<&mut LineCopy> {
        let copy = self.lines.get_mut(name)?.copy.as_mut()?;
        (copy.aim?.1 == watch).then_some(copy)
    }

    pub(super) fn waits_behind_own(&self, name: &Name, kind: Kind, order: u64) -> bool {
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
    pub(super) fn follow(&mut self, name: &Name) -> News {
        let mut news = self.turns_and_aim(name);
        let copy = self.lines.get_mut(name).and_then(|line| line.copy.as_mut());
        if let Some(copy) = copy.filter(|copy| copy.is_cluttered()) {
            (copy.is_reading, news.read) = (true, true);
        }
        news
    }

    fn turns_and_aim(&mut self, name: &Name) -> News {
        let mut news = self.turns(name);
        if !news.check.is_empty() || news.read {
            return news; // what to watch next is known after that
        }
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
            if matches!(aim, Aim::Claim(_)) {
                copy.aims_again();
            }
            self.watches.insert(self.last_watch, name.clone());
            news.start = Some(Wanted { watch: self.last_watch, name: name.clone(), aim, from: 0 });
        }
        news
    }

    /// The same, and these claims of ours are gone.
    pub(super) fn follow_without(&mut self, name: &Name, gone: Vec<ClaimId>) -> News {
        let mut news = self.follow(name);
        news.gone.extend(gone);
        news
    }

    /// What to watch in a line: `Some(None)` is nothing. None: that stays as it is, or a read will tell.
    pub(super) fn aim(&mut self, name: &Name, news: &mut News) -> Option<Option<Aim>> {
        let session = self.session;
        let (first, is_late) = self.first_waiting(name, news)?;
        let copy = self.lines.get(name)?.copy.as_ref()?;
        let Some((order, first)) = first else {
            // The claims of ours that wait came later than this view: it must be read, unless a watch will show them.
            let is_shown = copy.aim.is_some_and(|(aim, _)| aim == Aim::Line)
                && (copy.since.is_none() || copy.is_whole());
            news.read = is_late && !is_shown && !copy.is_reading;
            if news.read
                && let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut())
            {
                copy.is_reading = true;
            }
            return None;
        };
        if first.kind == Kind::Semaphore || copy.is_busy {
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
            Watch::Claim(own) if own.session == session && self.stands_where_shown(own, copy) => None,
            Watch::Claim(other) => Some(Aim::Claim(other)),
        };
        let is_same = copy.aim.map(|(aim, _)| aim) == aim;
        // What was looked at for another claim of ours says nothing of those ahead of this one.
        let checked = if copy.first == Some(first.id) { copy.checked } else { copy.view.revision };
        let has_fired = copy.fired_for == Some(first.id);
        let is_gap = is_same && copy.since.is_some_and(|since| checked < since);
        if (has_fired || is_gap) && !copy.is_reading {
            let ahead = shown.claims.iter().map(|claim| claim.id);
            let is_other = |id: &ClaimId| id.session != session || !self.claims.contains_key(&id.number);
            let mut ahead: Vec<ClaimId> = ahead.filter(is_other).collect();
            let is_read = has_fired && self.wants_a_list_soon(name, order);
            match ahead.len() {
                0 => {}
                // Its turn is not near, and will hardly have come in the gap.
                many if !has_fired && many > NEAR && copy.gap != Gap::Due => {
                    news.gap = copy.aim.map(|(_, watch)| watch).filter(|_| copy.gap == Gap::New);
                }
                _ if is_read => news.read = true,
                1..=MOST_CHECKED => {
                    ahead.extend(self.next_in_turn(name, &first));
                    news.looks_at(ahead, copy);
                }
                _ => news.read = true,
            }
            if let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
                copy.is_reading = news.read || !news.check.is_empty();
                copy.checking = (!news.check.is_empty()).then_some(first.id);
                if news.gap.is_some() {
                    copy.gap = Gap::Awaited;
                }
            }
            if has_fired && (news.read || !news.check.is_empty()) {
                return None; // what to watch next is known after that
            }
        }
        if let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            (copy.first, copy.checked) = (Some(first.id), checked);
        }
        Some(aim)
    }

    /// Whether this claim of ours stands where the view shows it: it may have been taken out, and made anew elsewhere.
    fn stands_where_shown(&self, id: ClaimId, copy: &LineCopy) -> bool {
        let stage = self.claims.get(&id.number).map(|own| own.stage);
        matches!(stage, Some(Stage::Stands(stands)) if copy.view.place(id) == Some(stands.order))
    }

    /// Whether the line is short, and a claim of ours waits behind the one in this place that the view does not show: when
    /// the first has its turn, a list is needed for the next one.
    pub(super) fn wants_a_list_soon(&self, name: &Name, order: u64) -> bool {
        let Some(line) = self.lines.get(name) else { return false };
        let Some(copy) = line.copy.as_ref().filter(|copy| copy.view.len() <= SHORT) else { return false };
        let mut next = line.places.range(order + 1..).filter(|(_, number)| line.waiting.contains(number));
        let is_unknown = |(place, number): (&u64, &u64)| {
            copy.view.place(ClaimId { session: self.session, number: *number }) != Some(*place)
        };
        next.next().is_some_and(is_unknown)
    }

    /// Those of ours that may have their turn together with the first of them that waits: readers.
    fn next_in_turn(&self, name: &Name, first: &Standing) -> Vec<ClaimId> {
        let Some(line) = self.lines.get(name) else { return Vec::new() };
        let is_reader = first.kind == Kind::RwLock && first.weight == Weight::ONE;
        let most = if is_reader { MOST_CHECKED } else { 1 };
        let waiting = line.places.values().filter(|number| line.waiting.contains(number));
        waiting.take(most).map(|number| ClaimId { session: self.session, number: *number }).collect()
    }

    /// Our first claim that waits in the view of a line, and whether any waits that the view does not show. None: nothing
    /// is known of that line, or none waits there. Those that the view should show are gone.
    fn first_waiting(&mut self, name: &Name, news: &mut News) -> Option<(Option<(u64, Standing)>, bool)> {
        let (first, is_late, gone) = self.sought(name)?;
        if !gone.is_empty() {
            news.gone.extend(self.gone(name, gone));
        }
        Some((first, is_late))
    }

    fn sought(&mut self, name: &Name) -> Option<Sought> {
        let session = self.session;
        let line = self.lines.get_mut(name).filter(|line| !line.waiting.is_empty() && !self.is_closed)?;
        let copy = line.copy.as_ref()?;
        let (mut first, mut is_late, mut stale, mut gone) = (None, false, Vec::new(), Vec::new());
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
            if *order > copy.view.revision.unsigned_abs() {
                is_late = true;
                break; // and so are all that come behind it
            }
            gone.push((id, *order));
        }
        for order in stale {
            line.places.remove(&order);
        }
        Some((first, is_late, gone))
    }

    pub(super) fn stands_at(&mut self, name: &Name, number: u64, order: u64, token: Token) {
        let Some(own) = self.claims.get_mut(&number) else { return };
        own.stands_at(order, token);
        let Stage::Stands(stands) = own.stage else { return self.waits_no_more(name, number) };
        if let Some(line) = self.lines.get_mut(name).filter(|line| line.waiting.contains(&number)) {
            line.places.insert(stands.order, number);
        }
    }

    /// Which of our waiting claims have their turn now.
    pub(super) fn turns(&mut self, name: &Name) -> News {
        let mut news = News::default();
        let Some(line) = self.lines.get(name).filter(|line| !line.waiting.is_empty()) else { return news };
        let Some(copy) = &line.copy else { return news };
        let front = copy.view.front(|id, order| self.held(id, order));
        let type_of = |claim: &tidelock_model::ShownClaim| (claim.kind, front.size(claim));
        let first = front.claims.first().map(type_of);
        let (mut held, mut unproved) = (Vec::new(), Vec::new());
        for (claim, is_held) in front.each().filter(|(claim, _)| claim.id.session == self.session) {
            let own = self.claims.get(&claim.id.number).filter(|own| own.is_at(claim.order));
            if is_held {
                // A semaphore may have been resized before the last departure: only the line shows that.
                let seen = |own: &Own| if own.kind == Kind::Semaphore { 0 } else { own.seen };
                match own {
                    Some(own) if copy.is_proved(seen(own)) => {
                        held.push((claim.id, claim.order, front.size(claim)));
                    }
                    Some(_) => unproved.push(claim.id),
                    None => {}
                }
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
        if !unproved.is_empty() {
            self.prove(name, unproved, &mut news);
        }
        news
    }

    /// Those ahead of these claims have left. Whether they stand there themselves, and whether a semaphore still has room for
    /// them, is looked at before they have their turn.
    fn prove(&mut self, name: &Name, claims: Vec<ClaimId>, news: &mut News) {
        let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) else { return };
        if std::mem::replace(&mut copy.is_reading, true) {
            return; // what is under way may tell
        }
        let is_resizable =
            |id: &ClaimId| self.claims.get(&id.number).is_some_and(|own| own.kind == Kind::Semaphore);
        match claims.len() {
            0..=MOST_CHECKED if !claims.iter().any(is_resizable) => news.looks_at(claims, copy),
            _ => news.read = true,
        }
    }

    /// These claims were looked at, at that revision: where each stands, if it does. Those of ours that do not stand there,
    /// although nobody has given them back here, are gone.
    pub(super) fn found(
        &mut self,
        name: &Name,
        revision: i64,
        found: impl IntoIterator<Item = (ClaimId, Option<u64>)>,
    ) -> News {
        let mut left = Vec::new();
        for (id, place) in found.into_iter().filter(|(id, _)| id.session == self.session) {
            let Some(own) = self.claims.get_mut(&id.number) else { continue };
            match (place, own.stage) {
                (Some(order), _) => own.was_seen(order, revision),
                (None, Stage::Stands(stands)) if stands.order <= revision.unsigned_abs() => {
                    left.push((id, stands.order));
                }
                _ => {}
            }
        }
        if let Some(copy) = self.lines.get_mut(name).and_then(|line| line.copy.as_mut()) {
            left.iter().for_each(|(id, _)| copy.departs(*id, revision));
        }
        let gone = self.gone(name, left);
        self.follow_without(name, gone)
    }

    /// A claim of ours has left, and does not stand there at that revision.
    pub(super) fn forget(&mut self, name: &Name, id: ClaimId, at: Option<i64>) {
        self.waits_no_more(name, id.number);
        let kind = self.claims.remove(&id.number).map(|own| own.kind);
        if let Some(line) = self.lines.get_mut(name) {
            line.is_gone(id.number);
            let is_resizable = |copy: &LineCopy| {
                let kind = kind.or_else(|| copy.view.find(id).map(|one| one.kind));
                kind == Some(Kind::Semaphore)
            };
            if let Some(copy) = line.copy.as_mut().filter(|copy| !is_resizable(copy))
                && let Some(at) = at
            {
                copy.departs(id, at);
            }
        }
        self.forget_if_empty(name);
    }

    /// Those of these claims that were ours, stood there, and were not leaving: somebody else took them out. One that the
    /// view shows at a later place has moved there.
    pub(super) fn gone(&mut self, name: &Name, left: Vec<(ClaimId, u64)>) -> Vec<ClaimId> {
        let mut gone = Vec::new();
        let session = self.session;
        for (id, order) in left.into_iter().filter(|(id, _)| id.session == session) {
            let stood = |own: &Own| {
                !own.is_leaving && matches!(own.stage, Stage::Stands(stands) if stands.order == order)
            };
            if self.claims.get(&id.number).is_some_and(stood) && !self.has_moved(name, id, order) {
                self.waits_no_more(name, id.number);
                self.claims.remove(&id.number);
                if let Some(line) = self.lines.get_mut(name) {
                    line.is_gone(id.number);
                }
                gone.push(id);
            }
        }
        self.has_idle |= !gone.is_empty();
        gone
    }

    /// Whether this claim, which waited at that place, stands at a later one: a move of it got no answer, and has arrived.
    /// If so, it stands there from now on.
    fn has_moved(&mut self, name: &Name, id: ClaimId, from: u64) -> bool {
        let is_at = |state: &Self, place| state.claims.get(&id.number).is_some_and(|own| own.is_at(place));
        let to = self.copy(name).and_then(|copy| copy.view.place(id)).filter(|to| *to > from);
        let Some((to, token)) = to.and_then(|to| Some((to, Token::from_order(to)?))) else { return false };
        if !is_at(self, from) {
            return false;
        }
        if let Some(line) = self.lines.get_mut(name) {
            line.places.remove(&from);
        }
        self.stands_at(name, id.number, to, token);
        is_at(self, to)
    }

    pub(super) fn waits_no_more(&mut self, name: &Name, number: u64) {
        if let Some(line) = self.lines.get_mut(name) {
            line.waiting.remove(&number);
            if let Some(Stage::Stands(stands)) = self.claims.get(&number).map(|own| own.stage) {
                line.places.remove(&stands.order);
            }
            self.has_idle |= line.waiting.is_empty() && line.copy.is_some();
        }
    }

    pub(super) fn forget_if_empty(&mut self, name: &Name) {
        let is_empty = |line: &OwnLine| line.claims.is_empty() && line.copy.is_none();
        if self.lines.get(name).is_some_and(is_empty) {
            self.lines.remove(name);
        }
    }
}
