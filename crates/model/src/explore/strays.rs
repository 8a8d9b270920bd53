//! The game of a line that lets every claim in: claims of several types on one name, and clients that are cut off.
//!
//! The store here is as simple as possible: it keeps claims in order of arrival, and what a resize writes. A claim of
//! any type may come at any time. A claim may be cut off at any moment: then its client does nothing more until the
//! session ends. Clients look when they are stirred, as late as possible, and do what [`place`](crate::place()) says;
//! a claim joins again with another size later, by a transaction of its own. Only the first of a client's waiters has
//! a watch.
//!
//! Whatever stands there, guards that overlap must be of one kind, must have been told one size, and must fit it. And
//! once the claims that were cut off are gone and every stirred client has looked, no claim may still wait that could
//! be held.

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::game::{Broken, Game};
use super::key::Key;
use super::stage::{call, call_session};
use crate::{
    ClaimId, Kind, Place, Resized, SessionId, ShownClaim, ShownLine, Watch, Weight, place, touches, watch,
};

const OVERLAP: Broken = Broken {
    name: "overlap",
    sentence: "guards overlap that are of two kinds, or were told two sizes, or do not fit their size",
};
const LEFT_WAITING: Broken = Broken {
    name: "left_waiting",
    sentence: "no client is cut off, every stirred client has looked, and a claim waits that could be held",
};
const ONE_MUTEX: Broken =
    Broken { name: "one_mutex", sentence: "one departure woke more than one waiter of a mutex" };

/// The session whose client may be cut off.
const CUT_OFF: SessionId = SessionId::from_bits(2);

/// One form in which a claim may come.
#[derive(Clone, Copy, Debug)]
struct Guise {
    kind: Kind,
    weight: Weight,
    declared: Weight,
}

/// The possible forms of each claim, and the sizes that a resize may set.
#[derive(Debug)]
pub(super) struct Strays {
    title: &'static str,
    guises: Vec<(ClaimId, Guise)>,
    claims: Vec<ClaimId>,
    sizes: Vec<Weight>,
    moves: Vec<Move>,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Come(ClaimId, Guise),
    Look(SessionId),
    /// Its transaction arrives: it joins again.
    Again(ClaimId),
    Leave(ClaimId),
    /// A writer becomes a reader.
    Lighten(ClaimId),
    CutOff(ClaimId),
    /// The session of a claim that was cut off ends.
    End(ClaimId),
    /// A client that resizes has listed the line.
    List(Weight),
    /// That client writes.
    Write,
    /// That client is cut off before it writes.
    GiveUp,
}

/// What a client knows of a claim of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It has come, and has to look.
    Come,
    /// It is about to join again with this size, provided that this first claim still stands there.
    Again(ClaimId, Weight),
    /// It waits, and has to look.
    Stirred,
    /// Its client was told that it is held, under this size.
    Held(Weight),
    /// It waits, and watches this, or nothing if it stands behind another waiter of its client.
    Waits(Option<Watch>),
}

/// A line, and what each client knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shore {
    line: ShownLine,
    last: u64,
    known: BTreeMap<ClaimId, Known>,
    cut_off: BTreeSet<ClaimId>,
    resizing: Option<Resizing>,
    broken: Vec<&'static str>,
}

/// A resize under way: what it will write, provided that the last claim that it saw still stands there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Resizing {
    resized: Resized,
    last: ClaimId,
    is_second: bool,
}

/// The stages.
pub(super) fn all(deep: bool) -> Vec<Strays> {
    let mutex = (Kind::Mutex, 1, 1);
    let of = |size: u32, weight: u32| (Kind::Semaphore, weight, size);
    let read = (Kind::RwLock, 1, Weight::MAX.get());
    let write = (Kind::RwLock, Weight::MAX.get(), Weight::MAX.get());
    let small = [
        Strays::new("mutex and permits", [&[mutex], &[of(2, 1)], &[mutex], &[of(2, 1)]], &[]),
        Strays::new("mutex and readers", [&[mutex], &[], &[read, write], &[mutex, read]], &[]),
        Strays::new("two sizes", [&[of(2, 1)], &[], &[of(3, 1)], &[of(2, 1), of(3, 2)]], &[]),
        Strays::new("two sizes of four", [&[of(2, 1)], &[of(2, 1)], &[of(3, 1)], &[of(2, 1)]], &[]),
        Strays::new("two sizes and a mutex", [&[of(2, 1)], &[], &[of(3, 1), mutex], &[of(2, 1)]], &[]),
        Strays::new("one size that grows", [&[of(2, 1)], &[], &[of(2, 2)], &[]], &[3]),
        Strays::new("one size that shrinks", [&[of(2, 1)], &[of(2, 1)], &[of(2, 1)], &[]], &[1]),
        Strays::new("one of two sizes shrinks", [&[of(2, 1)], &[], &[of(3, 1)], &[]], &[1]),
    ];
    let large = [
        Strays::new("two sizes that shrink", [&[of(2, 1)], &[], &[of(3, 1)], &[of(2, 1)]], &[1]),
        Strays::new("two sizes that grow", [&[of(2, 1)], &[], &[of(1, 1)], &[of(2, 1)]], &[3]),
        Strays::new("one size that is changed", [&[of(2, 1)], &[of(2, 1)], &[of(2, 2)], &[]], &[3, 1]),
    ];
    small.into_iter().chain(large.into_iter().filter(|_| deep)).collect()
}

impl Strays {
    fn new(title: &'static str, each: [&[(Kind, u32, u32)]; 4], sizes: &[u32]) -> Self {
        let weight = |n| Weight::new(n).expect("weights from 1 to MAX");
        let ids = [(1, 1), (1, 2), (2, 1), (3, 1)];
        let ids = ids.map(|(session, number)| ClaimId { session: SessionId::from_bits(session), number });
        let guise = |(kind, n, of): &(Kind, u32, u32)| Guise {
            kind: *kind,
            weight: weight(*n),
            declared: weight(*of),
        };
        let guises: Vec<_> = ids
            .iter()
            .zip(each)
            .flat_map(|(id, each)| each.iter().map(move |one| (*id, guise(one))))
            .collect();
        let claims: Vec<_> =
            ids.into_iter().filter(|id| guises.iter().any(|(other, _)| other == id)).collect();
        let sizes: Vec<_> = sizes.iter().map(|n| weight(*n)).collect();
        let mut moves: Vec<_> = guises.iter().map(|(id, guise)| Move::Come(*id, *guise)).collect();
        moves.extend([1, 2, 3].map(|session| Move::Look(SessionId::from_bits(session))));
        let of_each = |id: &ClaimId| [Move::Again, Move::Leave, Move::Lighten].map(|one| one(*id));
        moves.extend(claims.iter().flat_map(of_each));
        // The claims of one client are enough: any other client that is cut off is only slow.
        let of_one = claims.iter().filter(|id| id.session == CUT_OFF && sizes.is_empty());
        moves.extend(of_one.flat_map(|id| [Move::CutOff(*id), Move::End(*id)]));
        moves.extend(sizes.iter().map(|to| Move::List(*to)));
        moves.extend([Move::Write, Move::GiveUp]);
        Self { title, guises, claims, sizes, moves }
    }

    /// Every size that a claim may be of.
    fn all_sizes(&self) -> impl Iterator<Item = Weight> + '_ {
        self.guises.iter().map(|(_, guise)| guise.declared).chain(self.sizes.iter().copied())
    }

    fn size_code(&self, size: Weight) -> usize {
        self.all_sizes().position(|other| other == size).expect("a size of the stage")
    }

    fn code(&self, id: ClaimId) -> usize {
        self.claims.iter().position(|other| *other == id).expect("a claim of the stage")
    }

    fn known_code(&self, known: Option<&Known>) -> usize {
        let (claims, sizes) = (self.claims.len(), self.all_sizes().count());
        match known {
            None => 0,
            Some(Known::Come) => 1,
            Some(Known::Stirred) => 2,
            Some(Known::Waits(None)) => 3,
            Some(Known::Waits(Some(Watch::Line))) => 4,
            Some(Known::Waits(Some(Watch::Claim(id)))) => 5 + self.code(*id),
            Some(Known::Held(size)) => 5 + claims + self.size_code(*size),
            Some(Known::Again(first, size)) => {
                5 + claims + sizes + self.code(*first) * sizes + self.size_code(*size)
            }
        }
    }

    fn push_claim(&self, key: &mut Key, shore: &Shore, claim: Option<&ShownClaim>) {
        let (claims, sizes) = (self.claims.len(), self.all_sizes().count());
        let mut digit = |of: &dyn Fn(&ShownClaim) -> usize, base| key.push(claim.map_or(0, of), base);
        digit(&|claim| self.code(claim.id) + 1, claims + 1);
        digit(&|claim| claim.kind as usize, 3);
        digit(&|claim| self.size_code(claim.declared), sizes);
        digit(
            &|claim| self.guises.iter().position(|(_, guise)| guise.weight == claim.weight).unwrap_or(0),
            self.guises.len(),
        );
        digit(&|claim| self.known_code(shore.known.get(&claim.id)), 5 + claims + sizes + claims * sizes);
        digit(&|claim| usize::from(shore.cut_off.contains(&claim.id)), 2);
    }

    fn push_resized(&self, key: &mut Key, shore: &Shore, resized: Option<Resized>) {
        let claims = self.claims.len();
        let older = |order| shore.line.claims.iter().filter(|claim| claim.order < order).count();
        // A resize that covers no claim has no effect any more: no later claim comes before it.
        let resized = resized.filter(|resized| older(resized.before) > 0);
        key.push(
            resized.map_or(0, |resized| self.size_code(resized.capacity) + 1),
            self.all_sizes().count() + 1,
        );
        key.push(resized.map_or(0, |resized| older(resized.before)), claims + 1);
        key.push(resized.map_or(0, |resized| older(resized.let_in)), claims + 1);
    }
}

impl Game for Strays {
    type State = Shore;

    fn title(&self) -> &str {
        self.title
    }

    fn start(&self) -> Shore {
        Shore::default()
    }

    fn moves(&self) -> usize {
        self.moves.len()
    }

    fn play(&self, before: &Shore, number: usize) -> (Shore, Vec<Broken>) {
        let mut shore = before.clone();
        match self.moves[number] {
            Move::Come(id, guise) => shore.come(id, guise),
            Move::Look(session) => shore.look(session, self.sizes.is_empty()),
            Move::Again(id) => shore.again(id),
            Move::Leave(id) if !shore.cut_off.contains(&id) => shore.departs(id),
            Move::Lighten(id) => shore.lighten(id),
            Move::CutOff(id) if shore.line.claim(id).is_some() => drop(shore.cut_off.insert(id)),
            Move::End(id) if shore.cut_off.contains(&id) => shore.departs(id),
            Move::List(to) => shore.list(to),
            Move::Write => shore.write(),
            Move::GiveUp => shore.resizing = None,
            Move::Leave(_) | Move::CutOff(_) | Move::End(_) => {}
        }
        let mut found = std::mem::take(&mut shore.broken);
        found.extend(shore.leaves_somebody_waiting().then_some(LEFT_WAITING.name));
        let all = [OVERLAP, LEFT_WAITING, ONE_MUTEX];
        (shore, all.into_iter().filter(|broken| found.contains(&broken.name)).collect())
    }

    fn key(&self, shore: &Shore) -> u128 {
        let mut key = Key::default();
        for position in 0..self.claims.len() {
            self.push_claim(&mut key, shore, shore.line.claims.get(position));
        }
        if self.sizes.is_empty() {
            return key.get();
        }
        self.push_resized(&mut key, shore, shore.line.resized);
        self.push_resized(&mut key, shore, shore.resizing.map(|resizing| resizing.resized));
        let last = shore.resizing.filter(|resizing| shore.line.claim(resizing.last).is_some());
        key.push(last.map_or(0, |resizing| self.code(resizing.last) + 1), self.claims.len() + 1);
        let pass = shore.resizing.map_or(0, |resizing| 1 + usize::from(resizing.is_second));
        key.push(pass, 3);
        key.get()
    }

    fn tell(&self, number: usize) -> String {
        match self.moves[number] {
            Move::Come(id, guise) => {
                format!("{} comes to a {} for {} of {}", call(id), guise.kind, guise.weight, guise.declared)
            }
            Move::Look(session) => format!("the client of session {} looks", call_session(session)),
            Move::Again(id) => format!("{} joins again, if it still may", call(id)),
            Move::Leave(id) => format!("{} leaves", call(id)),
            Move::Lighten(id) => format!("{} becomes a reader", call(id)),
            Move::CutOff(id) => format!("{} is cut off", call(id)),
            Move::End(id) => format!("the session of {} ends", call(id)),
            Move::List(to) => format!("a client lists the line, to resize it to {to}"),
            Move::Write => "and writes that down".into(),
            Move::GiveUp => "and is cut off".into(),
        }
    }
}

impl Shore {
    fn come(&mut self, id: ClaimId, Guise { kind, weight, declared }: Guise) {
        if self.line.claim(id).is_none() {
            self.append(ShownClaim { id, kind, weight, declared, order: 0, token: None });
        }
    }

    fn append(&mut self, claim: ShownClaim) {
        self.last += 1;
        self.line.claims.push(ShownClaim { order: self.last, ..claim });
        self.known.insert(claim.id, Known::Come);
    }

    /// One client looks at the line, once for all of its claims.
    fn look(&mut self, session: SessionId, is_one_size: bool) {
        let own: Vec<ClaimId> =
            self.line.claims.iter().map(|claim| claim.id).filter(|id| self.is_kept(*id, session)).collect();
        let looks = |id: &ClaimId| matches!(self.known.get(id), Some(Known::Come | Known::Stirred));
        if !own.iter().any(looks) {
            return;
        }
        let line = self.seen_by(session);
        let mut leaving = Vec::new();
        let mut is_first = true;
        for id in own {
            let known = self.known[&id];
            match (known, place(&line, id)) {
                (Known::Held(_) | Known::Again(..), _) => {}
                (_, Place::Held) => self.told(&line, id, is_one_size),
                (Known::Come, Place::AnotherSize(size)) if self.weight(id) <= size => {
                    self.known.insert(id, Known::Again(line.claims[0].id, size));
                }
                (_, Place::AnotherSize(_) | Place::Stranded) | (Known::Come, Place::AnotherKind(_))
                    if !seeded!("another_size_goes_on_waiting") =>
                {
                    leaving.push(id);
                }
                _ => {
                    let what = watch(&line, id).filter(|_| std::mem::replace(&mut is_first, false));
                    self.known.insert(id, Known::Waits(what));
                }
            }
        }
        leaving.into_iter().for_each(|id| self.departs(id));
    }

    /// Whether the claim is this client's, and is not cut off.
    fn is_kept(&self, id: ClaimId, session: SessionId) -> bool {
        id.session == session && !self.cut_off.contains(&id)
    }

    fn weight(&self, id: ClaimId) -> Weight {
        self.line.claim(id).map_or(Weight::ONE, |claim| claim.weight)
    }

    /// The line, marked with what a client remembers of its own claims.
    fn seen_by(&self, session: SessionId) -> ShownLine {
        let mut line = self.line.clone();
        for claim in line.claims.iter_mut().filter(|claim| claim.id.session == session) {
            let is_told = matches!(self.known.get(&claim.id), Some(Known::Held(_)));
            claim.token = crate::Token::from_order(0).filter(|_| is_told);
        }
        line
    }

    fn told(&mut self, line: &ShownLine, id: ClaimId, is_one_size: bool) {
        let Some(mine) = line.claim(id) else { return };
        let size = line.size(mine);
        let mut sum = u64::from(mine.weight.get());
        for claim in &self.line.claims {
            let Some(Known::Held(told)) = self.known.get(&claim.id) else { continue };
            // A held claim behind was let in before a shrink, when all claims ahead of it fitted as well.
            let counts = is_one_size || claim.order < mine.order;
            sum += if counts { u64::from(claim.weight.get()) } else { 0 };
            if claim.kind != mine.kind || is_one_size && *told != size {
                self.broken.push(OVERLAP.name);
            }
        }
        if sum > u64::from(size.get()) && !self.is_let_in(mine) {
            self.broken.push(OVERLAP.name);
        }
        self.known.insert(id, Known::Held(size));
        if touches(line, id) {
            self.stir(|_, watch| watch == Watch::Claim(id));
        }
    }

    fn is_let_in(&self, claim: &ShownClaim) -> bool {
        self.line.resized.is_some_and(|resized| claim.order < resized.let_in)
    }

    /// Its transaction: if the first claim still stands there, it leaves and comes back with that size.
    fn again(&mut self, id: ClaimId) {
        let Some(Known::Again(first, size)) = self.known.get(&id).copied() else { return };
        if self.line.claim(first).is_none() {
            self.known.insert(id, Known::Come);
        } else if let Some(claim) = self.line.claim(id).copied() {
            self.departs(id);
            self.append(ShownClaim { declared: size, ..claim });
        }
    }

    fn departs(&mut self, id: ClaimId) {
        let Some(position) = self.line.position(id) else { return };
        self.line.claims.remove(position);
        self.cut_off.remove(&id);
        let known = self.known.remove(&id);
        // Claims of the same client behind it have no watch.
        if matches!(known, Some(Known::Waits(Some(_)) | Known::Stirred)) {
            self.stir_own(id.session);
        }
        self.fire(id);
    }

    fn lighten(&mut self, id: ClaimId) {
        let is_held = matches!(self.known.get(&id), Some(Known::Held(_)));
        let claim = self.line.claims.iter_mut().find(|claim| claim.id == id && claim.weight == Weight::MAX);
        if let Some(claim) = claim.filter(|_| is_held && !self.cut_off.contains(&id)) {
            claim.weight = Weight::ONE;
            self.fire(id);
        }
    }

    /// Fires the watches on this claim and on the line.
    fn fire(&mut self, id: ClaimId) {
        let mutexes: Vec<ClaimId> =
            self.line.claims.iter().filter(|claim| claim.kind == Kind::Mutex).map(|claim| claim.id).collect();
        let fired = self.stir(|_, watch| watch == Watch::Claim(id) || watch == Watch::Line);
        if fired.iter().filter(|id| mutexes.contains(id)).count() > 1 {
            self.broken.push(ONE_MUTEX.name);
        }
    }

    fn stir(&mut self, concerns: impl Fn(ClaimId, Watch) -> bool) -> Vec<ClaimId> {
        let mut fired = Vec::new();
        for (id, known) in &mut self.known {
            if let Known::Waits(Some(watch)) = *known
                && concerns(*id, watch)
            {
                *known = Known::Stirred;
                fired.push(*id);
            }
        }
        fired
    }

    fn stir_own(&mut self, session: SessionId) {
        for (id, known) in &mut self.known {
            if id.session == session && matches!(known, Known::Waits(_)) {
                *known = Known::Stirred;
            }
        }
    }

    // A resize, step by step.

    fn list(&mut self, to: Weight) {
        let covers = |resized: Resized| self.line.claims.iter().any(|claim| claim.order < resized.before);
        if self.line.resized.is_some_and(covers) {
            return; // one at a time: there are enough states as it is
        }
        let Some((Kind::Semaphore, from)) = self.line.in_use() else { return };
        let Some(last) = self.line.claims.last().copied().filter(|_| self.resizing.is_none() && from != to)
        else {
            return;
        };
        if self.line.stranded_by(to).is_none() {
            let let_in =
                self.line.claims[..self.line.held_in_front()].last().map_or(0, |claim| claim.order + 1);
            let resized = Resized { capacity: to, before: last.order + 1, let_in };
            self.resizing = Some(Resizing { resized, last: last.id, is_second: false });
        }
    }

    /// If a claim came in between, the resize is written once more, to cover that claim too.
    fn write(&mut self) {
        let Some(Resizing { resized, last, is_second }) = self.resizing.take() else { return };
        let Some(now_last) = self.line.claims.last().copied() else { return };
        let again = Resized { before: now_last.order + 1, ..resized };
        if self.line.claim(last).is_none() {
            self.resizing = Some(Resizing { resized: again, last: now_last.id, is_second });
            return;
        }
        self.line.resized = Some(resized);
        self.stir(|_, _| true);
        if !is_second && again != resized {
            self.resizing = Some(Resizing { resized: again, last: now_last.id, is_second: true });
        }
    }

    /// Whether, when all is quiet, a claim waits that could be held, or that could be with the size in use.
    fn leaves_somebody_waiting(&self) -> bool {
        let is_quiet = |known: &Known| matches!(known, Known::Held(_) | Known::Waits(_));
        if !self.cut_off.is_empty() || !self.known.values().all(is_quiet) {
            return false;
        }
        let is_told = |claim: &ShownClaim| matches!(self.known.get(&claim.id), Some(Known::Held(_)));
        let mut line = self.line.clone();
        for claim in line.claims.iter_mut().filter(|claim| is_told(claim)) {
            claim.token = crate::Token::from_order(0);
        }
        let told = line.claims.iter().take_while(|claim| is_told(claim)).count();
        line.claims.get(told).is_some_and(|next| {
            let place = place(&line, next.id);
            place == Place::Held || matches!(place, Place::AnotherSize(_) | Place::Stranded)
        })
    }
}

/// The names of the checks.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [OVERLAP, LEFT_WAITING, ONE_MUTEX].map(|check| check.name).into_iter()
}
