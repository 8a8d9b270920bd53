//! Explores every order of events around a client's own line. Its own claims and another client's claims come, leave,
//! become lighter, or stand in line anew; lists are requested, made and read at different times; watches are set
//! late. In every order the held claims must fit, and when all is quiet no claim may wait whose turn it is.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use tidelock_model::{Kind, Place, ShownClaim, ShownLine, Token, Watch, Weight, places, touches};

use super::{Aim, OwnLine};
use crate::{ClaimId, SessionId};

const OURS: SessionId = SessionId::from_bits(1);
const THEIRS: SessionId = SessionId::from_bits(2);
/// The most lists that may be under way at once.
const LISTS: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    line: ShownLine,
    /// How often a claim came or left.
    version: u64,
    /// Numbers are never reused.
    came: BTreeSet<u64>,
    /// How often the other client's claims were touched.
    touched: BTreeMap<u64, u64>,
    own: OwnLine,
    held: BTreeSet<u64>,
    /// Claims of the other client that know that they are held.
    theirs_held: BTreeSet<u64>,
    /// Lists under way: the stamp at the request, and what the list shows once it was made.
    lists: Vec<(u64, Option<(ShownLine, u64)>)>,
    /// Claims of ours that the store has removed or made lighter, with the answer still on its way.
    leaving: BTreeSet<u64>,
    changing: BTreeSet<u64>,
    moving: BTreeMap<u64, Moving>,
    /// How many places were given out.
    places: u64,
    watch: Option<(Watch, Setting)>,
    must_look: bool,
}

/// The stage of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Setting {
    /// It is to be set, based on this version of the line.
    Asked(u64),
    Set,
    Fired,
}

/// The stage of a claim of ours that stands in line anew. Each claim does so once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moving {
    Asked,
    /// The store has moved it to this place, and the answer is on its way.
    Done(u64),
    Answered,
}

/// The claims that may come, with session and number.
struct Stage {
    title: &'static str,
    claims: Vec<(SessionId, u64, Kind, u32, u32)>,
    /// The claim of ours that may stand in line anew while it waits.
    moves: Option<u64>,
}

/// The violations to search for.
type Broken = (&'static str, String);

impl World {
    fn new() -> Self {
        Self {
            line: ShownLine::default(),
            version: 0,
            came: BTreeSet::new(),
            touched: BTreeMap::new(),
            own: OwnLine::new(OURS, 0),
            held: BTreeSet::new(),
            theirs_held: BTreeSet::new(),
            lists: Vec::new(),
            leaving: BTreeSet::new(),
            changing: BTreeSet::new(),
            moving: BTreeMap::new(),
            places: 0,
            watch: None,
            must_look: false,
        }
    }

    /// All events that can happen next.
    fn next(&self, stage: &Stage) -> Vec<(String, Self)> {
        let mut next = Vec::new();
        let mut after = self.clone();
        // What cannot happen changes nothing, so the copy serves until something has.
        let mut add = |what: fmt::Arguments<'_>, change: &dyn Fn(&mut Self) -> bool| {
            if change(&mut after) {
                next.push((what.to_string(), std::mem::replace(&mut after, self.clone())));
            }
        };
        for claim in &stage.claims {
            let (session, number, ..) = *claim;
            add(format_args!("{number} comes"), &|world| world.comes(*claim, false));
            add(format_args!("{number} comes without a look"), &|world| world.comes(*claim, true));
            add(format_args!("the store lets {number} go"), &|world| world.departs(session, number));
            add(format_args!("the leave of {number} is answered"), &|world| world.left(number));
            add(format_args!("the store makes {number} lighter"), &|world| world.lightens(number));
            add(format_args!("{number} knows that it is lighter"), &|world| world.changed(number));
            add(format_args!("the other client looks for {number}"), &|world| {
                world.they_look(session, number)
            });
            if stage.moves == Some(number) {
                add(format_args!("{number} is to stand anew"), &|world| world.asks_anew(number));
                add(format_args!("the store lets {number} stand anew"), &|world| world.moves(number));
                add(format_args!("{number} knows that it stands anew"), &|world| world.moved(number));
            }
        }
        add(format_args!("a list is sent"), &Self::sends);
        for at in 0..self.lists.len() {
            add(format_args!("list {at} is made"), &|world| world.makes(at));
            add(format_args!("list {at} is read"), &|world| world.reads(at));
        }
        add(format_args!("the watch is set"), &Self::sets);
        add(format_args!("the watch fires"), &Self::fires);
        next
    }

    fn comes(
        &mut self,
        (session, number, kind, weight, declared): (SessionId, u64, Kind, u32, u32),
        parks: bool,
    ) -> bool {
        let weigh = |n| Weight::new(n).expect("weights from 1 to MAX");
        let (weight, declared) = (weigh(weight), weigh(declared));
        let id = ClaimId { session, number };
        if self.came.contains(&number) {
            return false;
        }
        let is_watched = self.own.armed().is_some_and(|armed| self.own.is_waiting(armed.first));
        if parks && !(session == OURS && is_watched) || !parks && session == OURS && self.lists.len() == LISTS
        {
            return false;
        }
        self.came.insert(number);
        let order = self.append(ShownClaim { id, kind, weight, declared, order: 0, token: None });
        if session == OURS {
            self.own.comes(number);
            self.must_look |= self.own.stands(number, order);
            if !parks {
                self.lists.push((self.own.stamp(), None));
            }
        }
        true
    }

    fn append(&mut self, claim: ShownClaim) -> u64 {
        self.version += 1;
        self.places += 1;
        self.line.claims.push(ShownClaim { order: self.places, ..claim });
        self.places
    }

    fn departs(&mut self, session: SessionId, number: u64) -> bool {
        let Some(at) = self.line.position(ClaimId { session, number }) else { return false };
        if session == OURS {
            self.own.waits_no_more(number);
            self.leaving.insert(number);
        }
        self.line.claims.remove(at);
        self.version += 1;
        self.theirs_held.remove(&number);
        self.touched.remove(&number);
        self.stirs(ClaimId { session, number }, true);
        true
    }

    fn left(&mut self, number: u64) -> bool {
        let was = self.leaving.remove(&number);
        if was {
            self.held.remove(&number);
            self.changing.remove(&number);
            self.must_look |= self.own.left(number);
            self.follows_the_watch();
        }
        was
    }

    fn lightens(&mut self, number: u64) -> bool {
        let is_held = self.held.contains(&number) && !self.leaving.contains(&number);
        let claim = self
            .line
            .claims
            .iter_mut()
            .find(|claim| claim.id.number == number && claim.weight == Weight::MAX);
        let Some(claim) = claim.filter(|_| is_held) else { return false };
        claim.weight = Weight::ONE;
        let id = claim.id;
        self.changing.insert(number);
        self.stirs(id, true);
        true
    }

    fn changed(&mut self, number: u64) -> bool {
        let was = self.changing.remove(&number);
        if was {
            self.must_look |= self.own.changed(number);
            self.follows_the_watch();
        }
        was
    }

    fn asks_anew(&mut self, number: u64) -> bool {
        let id = ClaimId { session: OURS, number };
        let may = self.own.is_waiting(number)
            && self.line.claim(id).is_some()
            && !self.moving.contains_key(&number);
        if may {
            self.own.moves(number);
            self.moving.insert(number, Moving::Asked);
        }
        may
    }

    /// It leaves and joins again, in one step.
    fn moves(&mut self, number: u64) -> bool {
        let id = ClaimId { session: OURS, number };
        if self.moving.get(&number) != Some(&Moving::Asked) {
            return false;
        }
        let Some(at) = self.line.position(id) else {
            self.moving.insert(number, Moving::Answered);
            return true;
        };
        let claim = self.line.claims.remove(at);
        let place = self.append(claim);
        self.moving.insert(number, Moving::Done(place));
        self.stirs(id, true);
        true
    }

    /// It hears the answer, and looks.
    fn moved(&mut self, number: u64) -> bool {
        let Some(Moving::Done(place)) = self.moving.get(&number).copied() else { return false };
        self.moving.insert(number, Moving::Answered);
        self.must_look |= self.own.stands(number, place) || self.own.has(number);
        self.follows_the_watch();
        true
    }

    /// The other client finds its claim held, and touches it if another claim may rely on that.
    fn they_look(&mut self, session: SessionId, number: u64) -> bool {
        let id = ClaimId { session, number };
        let is_held = self.line.held().any(|claim| claim.id == id);
        if session != THEIRS || !is_held || !self.theirs_held.insert(number) {
            return false;
        }
        if touches(&self.line, id) {
            *self.touched.entry(number).or_default() += 1;
            self.stirs(id, false);
        }
        true
    }

    /// The watched claim or line has changed at the store.
    fn stirs(&mut self, id: ClaimId, has_left: bool) {
        if let Some((watch, setting)) = &mut self.watch
            && *setting == Setting::Set
            && (*watch == Watch::Claim(id) || has_left && *watch == Watch::Line)
        {
            *setting = Setting::Fired;
        }
    }

    fn sends(&mut self) -> bool {
        let sends = self.must_look && self.lists.len() < LISTS;
        if sends {
            self.must_look = false;
            self.lists.push((self.own.stamp(), None));
        }
        sends
    }

    fn makes(&mut self, at: usize) -> bool {
        let (_, made) = &mut self.lists[at];
        if made.is_some() {
            return false;
        }
        *made = Some((self.line.clone(), self.version));
        true
    }

    fn reads(&mut self, at: usize) -> bool {
        let (stamp, Some((mut line, version))) = self.lists[at].clone() else { return false };
        self.lists.remove(at);
        for claim in line.claims.iter_mut().filter(|claim| claim.id.session == OURS) {
            claim.token = Token::from_order(0).filter(|_| self.held.contains(&claim.id.number));
        }
        let ours = line.held().filter(|claim| claim.id.session == OURS);
        let held: Vec<(u64, u64)> = ours.map(|claim| (claim.id.number, claim.order)).collect();
        for (number, place) in held {
            if self.own.is_waiting(number) && self.own.holds(number, place) {
                self.held.insert(number);
            }
        }
        match self.own.seen(&line, stamp) {
            Aim::Look => self.must_look = true,
            Aim::Watch(armed) => {
                self.watch = Some((armed.what, Setting::Asked(version)));
            }
            Aim::Kept => {}
        }
        self.follows_the_watch();
        true
    }

    /// Drops the store's watch if the client no longer watches it.
    fn follows_the_watch(&mut self) {
        let is_armed =
            |(watch, _): &(Watch, Setting)| self.own.armed().is_some_and(|armed| armed.what == *watch);
        self.watch = self.watch.filter(is_armed);
    }

    /// Sets the watch by a read, which tells whether the claim exists and is as the list showed it.
    fn sets(&mut self) -> bool {
        let Some((what, Setting::Asked(version))) = self.watch else { return false };
        let armed = self.own.armed().map(|armed| armed.serial);
        let is_as_it_was = match what {
            Watch::Line => self.version == version,
            Watch::Claim(id) if self.line.claim(id).is_none() => false,
            Watch::Claim(id) => {
                let touches = self.touched.get(&id.number).copied().unwrap_or(0);
                if !armed.is_none_or(|serial| self.own.is_set(serial, touches)) {
                    self.watch = None;
                    self.must_look = true;
                    return true;
                }
                true
            }
        };
        self.watch = Some((what, if is_as_it_was { Setting::Set } else { Setting::Fired }));
        true
    }

    fn fires(&mut self) -> bool {
        let Some((_, Setting::Fired)) = self.watch else { return false };
        self.watch = None;
        let armed = self.own.armed().map(|armed| armed.serial);
        armed.into_iter().for_each(|serial| self.own.fired(serial));
        self.must_look = true;
        true
    }

    fn broken(&self) -> Option<&'static str> {
        match () {
            () if !self.is_fit() => Some("exclusion"),
            () if self.is_stuck() => Some("nobody_stuck"),
            () => None,
        }
    }

    /// Whether the held claims fit.
    fn is_fit(&self) -> bool {
        let is_held = |claim: &&ShownClaim| match claim.id.session {
            OURS => self.held.contains(&claim.id.number),
            _ => self.theirs_held.contains(&claim.id.number),
        };
        let held = || self.line.claims.iter().filter(is_held);
        let sum: u64 = held().map(|claim| u64::from(claim.weight.get())).sum();
        held().all(|claim| sum <= u64::from(claim.declared.get()))
    }

    /// Whether nothing is under way and one of our claims waits although it is its turn.
    fn is_stuck(&self) -> bool {
        let is_watch_quiet = self.watch.is_none_or(|(_, setting)| setting == Setting::Set);
        let is_moving = self.moving.values().any(|moving| *moving != Moving::Answered);
        let is_quiet = !self.must_look
            && self.lists.is_empty()
            && self.leaving.is_empty()
            && self.changing.is_empty()
            && !is_moving;
        let mut line = self.line.clone();
        for claim in &mut line.claims {
            let is_held = self.held.contains(&claim.id.number) || self.theirs_held.contains(&claim.id.number);
            claim.token = Token::from_order(0).filter(|_| is_held);
        }
        let everyone_has_looked = places(&line)
            .all(|(claim, place)| claim.id.session == OURS || place != Place::Held || claim.token.is_some());
        let mut waits = places(&line)
            .filter(|(claim, _)| claim.id.session == OURS && self.own.is_waiting(claim.id.number));
        is_quiet && is_watch_quiet && everyone_has_looked && waits.any(|(_, place)| place == Place::Held)
    }

    /// Makes worlds equal that no client could tell apart: only one watch at a time has a serial.
    fn forget_serials(&mut self) {
        self.own.last_serial = 0;
        if let Some(armed) = &mut self.own.armed {
            armed.serial = 0;
        }
    }

    /// Two of a million worlds share one in one of 30 million runs.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Visits all worlds, and returns the shortest way to a broken one.
fn explore(stage: &Stage) -> Result<usize, Broken> {
    let mut seen = HashSet::from([World::new().fingerprint()]);
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut queue = VecDeque::from([(0, World::new())]);
    while let Some((from, world)) = queue.pop_front() {
        if let Some(check) = world.broken() {
            let (mut at, mut told) = (from, Vec::new());
            while at > 0 {
                told.push(ways[at].1.clone());
                at = ways[at].0;
            }
            told.reverse();
            return Err((check, format!("{}, after\n  {}\n{world:#?}", stage.title, told.join("\n  "))));
        }
        for (what, mut after) in world.next(stage) {
            after.forget_serials();
            if seen.insert(after.fingerprint()) {
                queue.push_back((ways.len(), after));
                ways.push((from, what));
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn whatever_comes_when_those_held_fit_and_nobody_of_ours_is_stuck() {
    let (mutex, read, write) = (
        (Kind::Mutex, 1, 1),
        (Kind::RwLock, 1, Weight::MAX.get()),
        (Kind::RwLock, Weight::MAX.get(), Weight::MAX.get()),
    );
    let permit = (Kind::Semaphore, 1, 2);
    let stage = |title, claims: &[(SessionId, (Kind, u32, u32))]| {
        let claims = claims.iter().zip(1..).map(|((session, (kind, weight, declared)), number)| {
            (*session, number, *kind, *weight, *declared)
        });
        Stage { title, claims: claims.collect(), moves: None }
    };
    let anew = (Kind::Semaphore, 1, 1);
    // The small ones first: a fault that one of them shows is found in a second, and not after all worlds of the large.
    for stage in [
        Stage { moves: Some(1), ..stage("places", &[(OURS, anew), (THEIRS, anew)]) },
        stage("a mutex", &[(OURS, mutex), (OURS, mutex), (THEIRS, mutex)]),
        stage("a read-write lock", &[(OURS, write), (OURS, read), (THEIRS, read)]),
        stage("permits", &[(OURS, permit), (THEIRS, permit), (THEIRS, permit), (OURS, permit)]),
    ] {
        let count = explore(&stage).unwrap_or_else(|(check, way)| {
            println!("\nbroken: {check}: {way}");
            panic!("{check} is broken");
        });
        println!("{}: {count} worlds", stage.title);
    }
}
