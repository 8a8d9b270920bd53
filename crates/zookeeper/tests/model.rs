//! Lines of nodes against the rule: after every operation of many short random sequences the server shows what
//! `tidelock_model::World` does, and every client whose turn it became is told to look, and sees it then.
//!
//! Sequences run side by side, each on names of its own, by three clients of which some may end on the way.
//!
//! By design this differs from the model in this, and only in this:
//! - A void leave is remembered by the claim's own client, and so only that one makes any.
//! - Only a writer can be made lighter, and only a reader.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_MODEL_SEED=SEED` runs that one alone.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use site::{Caller, name, weight};
use tidelock_model::{Event, Join, Op, Refusal, World};
use tidelock_zookeeper::{
    Claim, ClaimId, ErrorKind, Kind, Leave, Left, Name, Options, Patience, Place, SessionId, Shard, Store,
    Token, Weight,
};
use tokio::task::JoinSet;

const SEQUENCES: u64 = 2_000;
const AT_ONCE: u64 = 16;
const NAMES: [&str; 3] = ["..", "a/b", "é 🚂"];

/// Chance that can be replayed: SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.below(things.len())].clone()
    }

    fn weight(&mut self, most: usize) -> Weight {
        weight(u32::try_from(self.below(most)).unwrap() + 1)
    }
}

/// One sequence: the model and the server, side by side.
struct Pair<'a> {
    seed: u64,
    dice: Dice,
    store: &'a Store,
    options: Options,
    callers: &'a mut Vec<Caller>,
    last: &'a mut u64,
    names: Vec<Name>,
    world: World<Name>,
    log: Vec<String>,
    /// Every claim there ever was, and where.
    known: Vec<(Name, ClaimId)>,
    /// Who is to be told to look, and will find that this has its turn.
    granted: Vec<(Name, ClaimId)>,
    wishes: BTreeMap<ClaimId, Join<Name>>,
    tokens: BTreeMap<ClaimId, Token>,
    newest: BTreeMap<Name, Token>,
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("\nsequence TIDELOCK_MODEL_SEED={} on {:?}:", self.seed, self.names);
            self.log.iter().for_each(|line| eprintln!("    {line}"));
        }
    }
}

impl<'a> Pair<'a> {
    fn new(
        store: &'a Store,
        options: &Options,
        callers: &'a mut Vec<Caller>,
        last: &'a mut u64,
        seed: u64,
    ) -> Self {
        let mut world = World::new();
        for caller in callers.iter() {
            world.step(Op::Open { session: caller.id, ttl: 1 });
        }
        Self {
            seed,
            dice: Dice(seed),
            store,
            options: options.clone(),
            callers,
            last,
            names: NAMES
                .iter()
                .map(|odd| {
                    if seed & 1 == 0 {
                        name(&format!("{odd}{seed:x}"))
                    } else {
                        name(&format!("{seed:x}{odd}"))
                    }
                })
                .collect(),
            world,
            log: Vec::new(),
            known: Vec::new(),
            granted: Vec::new(),
            wishes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..6 + self.dice.below(9) {
            match self.dice.below(100) {
                0..42 => {
                    let (name, id) = (self.name(), self.fresh());
                    self.join(name, id).await;
                }
                42..47 => {
                    let (name, id) = self.anyone();
                    if self.caller(id.session).is_some() {
                        self.join(name, id).await;
                    }
                }
                47..76 => self.leave().await,
                76..82 => self.lighten().await,
                82..91 => self.resize().await,
                91..96 => self.renew().await,
                _ => self.end_one().await,
            }
            self.compare().await;
        }
        for name in self.names.clone() {
            while let Some(line) = self.world.line(&name) {
                let id = line.claims[self.dice.below(line.claims.len())].id;
                self.leave_one(id.session, &name, id, Leave::Done).await;
                self.compare().await;
            }
        }
    }

    // What to do, by chance.

    fn caller(&self, session: SessionId) -> Option<&Caller> {
        self.callers.iter().find(|caller| caller.id == session)
    }

    fn name(&mut self) -> Name {
        self.names[[0, 0, 0, 0, 0, 1, 1, 2][self.dice.below(8)]].clone()
    }

    fn alive(&mut self) -> SessionId {
        self.callers[self.dice.below(self.callers.len())].id
    }

    fn fresh(&mut self) -> ClaimId {
        *self.last += 1;
        ClaimId { session: self.alive(), number: *self.last }
    }

    /// Mostly somebody who stands in line, sometimes somebody who did or never will.
    fn anyone(&mut self) -> (Name, ClaimId) {
        let standing: Vec<_> = self
            .world
            .lines()
            .flat_map(|(name, line)| line.claims.iter().map(|claim| (name.clone(), claim.id)))
            .collect();
        match self.dice.below(10) {
            0..7 if !standing.is_empty() => self.dice.pick(&standing),
            7..9 if !self.known.is_empty() => self.dice.pick(&self.known.clone()),
            _ => (self.name(), self.fresh()),
        }
    }

    fn wish(&mut self, name: &Name, id: ClaimId) -> Join<Name> {
        let in_use = self.world.line(name).map(|line| line.kind);
        let kind = match in_use {
            Some(kind) if !self.dice.one_in(16) => kind,
            _ => self.dice.pick(&[Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Semaphore]),
        };
        let (weight, capacity) = match kind {
            Kind::Mutex => (Weight::ONE, Weight::ONE),
            Kind::RwLock => (self.dice.pick(&[Weight::ONE, Weight::ONE, Weight::MAX]), Weight::MAX),
            _ => (self.dice.weight(4), self.dice.weight(5)),
        };
        let patience = if self.dice.one_in(5) { Patience::Now } else { Patience::Wait };
        Join { name: name.clone(), id, kind, weight, capacity, patience }
    }

    // Each operation, asked of both.

    async fn join(&mut self, name: Name, id: ClaimId) {
        let mut join = self.wish(&name, id);
        if self.world.line(&name).is_some_and(|line| line.claim(id).is_some()) {
            join = self.wishes[&id].clone(); // a join that is repeated wishes for the same
            join.patience = Patience::Wait; // and has patience, since it stands there
        }
        self.wishes.insert(id, join.clone());
        self.log.push(format!("{join:?}"));
        self.known.push((name.clone(), id));
        let claim = Claim::new(id, name.clone(), join.kind, join.weight, join.capacity);
        let reply = self.caller(id.session).unwrap().session.join(&claim, join.patience).await;
        let events = self.world.step(Op::Join(join));
        match (&events[0], reply) {
            (Event::Held { .. }, Ok(Place::Held { grant, .. })) => {
                assert_eq!(grant.capacity, self.world.line(&name).unwrap().capacity);
                self.has_token(&name, id, grant.token);
            }
            (Event::Waiting { .. }, Ok(Place::Waiting { .. }))
            | (Event::Refused { why: Refusal::Busy, .. }, Ok(Place::Refused))
            | (Event::Refused { why: Refusal::Void, .. }, Ok(Place::Gone)) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), refused(*why), "{error}");
                self.leave_one(id.session, &name, id, Leave::Void).await; // as core does after every error
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
    }

    async fn leave(&mut self) {
        let (name, id) = self.anyone();
        let is_eviction = self.caller(id.session).is_none() || self.dice.one_in(4);
        let by = if is_eviction { self.alive() } else { id.session };
        let is_void = by == id.session && self.dice.one_in(4);
        for _ in 0..=usize::from(self.dice.one_in(8)) {
            self.leave_one(by, &name, id, if is_void { Leave::Void } else { Leave::Done }).await;
        }
    }

    async fn leave_one(&mut self, by: SessionId, name: &Name, id: ClaimId, how: Leave) {
        self.log.push(format!("{by} has {id} leave {name:?}, {how:?}"));
        self.known.push((name.clone(), id));
        let reply = self.caller(by).unwrap().session.leave(name, id, how).await.unwrap();
        let events = self.world.step(Op::Leave { name: name.clone(), id, how });
        let Event::Left { left, .. } = events[0] else { panic!("{events:?}") };
        assert_eq!(reply, left);
        self.tokens.remove(&id);
        self.expect(&events);
        if by != id.session && left != Left::Absent && self.caller(id.session).is_some() {
            // Its own client hears of it when it renews.
            let standing = [(name.clone(), vec![id])];
            let renewal = self.caller(id.session).unwrap().session.renew(Shard(0), &standing).await.unwrap();
            assert_eq!(renewal.gone, [id]);
        }
    }

    async fn lighten(&mut self) {
        let (name, id) = self.anyone();
        if self.caller(id.session).is_none() {
            return;
        }
        let line = self.world.line(&name);
        if line.is_some_and(|line| line.kind != Kind::RwLock || line.waiting().any(|claim| claim.id == id)) {
            return;
        }
        self.log.push(format!("{id} on {name:?} becomes a reader"));
        let claim = Claim::new(id, name.clone(), Kind::RwLock, Weight::MAX, Weight::MAX);
        let reply = self.caller(id.session).unwrap().session.lighten(&claim, Weight::ONE).await;
        let events = self.world.step(Op::Lighten { name: name.clone(), id, weight: Weight::ONE });
        match (&events[0], reply) {
            (Event::Lightened { .. }, Ok(())) => {}
            (Event::Absent { .. }, Err(error)) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events);
    }

    async fn resize(&mut self) {
        let (name, by) = (self.name(), self.alive());
        let capacity = self.world.line(&name).map(|line| line.capacity);
        let guess = self.dice.weight(5);
        let from = capacity.filter(|_| !self.dice.one_in(6)).unwrap_or(guess);
        let to = self.dice.weight(6);
        self.log.push(format!("{by} resizes {name:?} from {from} to {to}"));
        let reply = self.caller(by).unwrap().session.resize(&name, from, to).await;
        let events = self.world.step(Op::Resize { name: name.clone(), from, to });
        match (&events[0], reply) {
            (Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. }, Ok(())) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), refused(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events);
    }

    async fn renew(&mut self) {
        let by = self.alive();
        let standing = |(name, line): (&Name, &tidelock_model::Line)| {
            let ids: Vec<_> =
                line.claims.iter().map(|claim| claim.id).filter(|id| id.session == by).collect();
            (name.clone(), ids)
        };
        let standing: Vec<_> = self.world.lines().map(standing).filter(|(_, ids)| !ids.is_empty()).collect();
        let renewal = self.caller(by).unwrap().session.renew(Shard(0), &standing).await.unwrap();
        assert_eq!((renewal.gone, renewal.strays), (vec![], vec![]));
    }

    /// A session ends, and its client opens another.
    async fn end_one(&mut self) {
        let at = self.dice.below(self.callers.len());
        *self.last += 1;
        let next = Caller::open(self.store, self.callers[at].id.get() + (1 << 32), &self.options).await;
        let ended = std::mem::replace(&mut self.callers[at], next);
        self.log.push(format!("{} ends", ended.id));
        ended.session.close().await.unwrap();
        let events = self.world.step(Op::Close(ended.id));
        self.world.step(Op::Open { session: self.callers[at].id, ttl: 1 });
        self.expect(&events);
    }

    // What has to agree.

    fn expect(&mut self, events: &[Event<Name>]) {
        for event in events {
            if let Event::Held { name, id, .. } = event {
                self.granted.push((name.clone(), *id));
            }
        }
    }

    /// The token of a claim stays the same, and is newer than all before on its name.
    fn has_token(&mut self, name: &Name, id: ClaimId, token: Token) {
        if self.tokens.insert(id, token) != Some(token) {
            self.is_newest(name, id, token);
        }
    }

    fn is_newest(&mut self, name: &Name, id: ClaimId, token: Token) {
        let before = self.newest.insert(name.clone(), token);
        assert!(before.is_none_or(|before| before < token), "the token of {id} on {name:?} did not grow");
    }

    async fn compare(&mut self) {
        let granted = std::mem::take(&mut self.granted);
        let known: Vec<_> = granted.iter().map(|(_, id)| self.tokens.contains_key(id)).collect();
        for (name, id) in granted.clone() {
            if self.tokens.contains_key(&id) {
                continue; // seen together with another
            }
            let caller = self.caller(id.session).unwrap();
            if let Some(grant) = caller.heard.turn(&name, id).await {
                assert_eq!(grant.capacity, self.world.line(&name).unwrap().capacity);
                self.tokens.insert(id, grant.token);
                continue;
            }
            let waiting: Vec<_> =
                self.world.line(&name).unwrap().claims.iter().map(|claim| claim.id).collect();
            let mine: Vec<_> = waiting
                .into_iter()
                .filter(|other| other.session == id.session && !self.tokens.contains_key(other))
                .collect();
            let sight = caller.session.look(&name, &mine).await.unwrap();
            assert_eq!(sight.gone, [], "{sight:?}");
            assert!(sight.held.iter().any(|(held, _)| *held == id), "{id} has its turn, and {sight:?}");
            for (id, grant) in sight.held {
                assert_eq!(grant.capacity, self.world.line(&name).unwrap().capacity);
                self.tokens.insert(id, grant.token);
            }
        }
        // In the order in which they were granted: a look tells of all of its client's at once.
        for ((name, id), _) in granted.iter().zip(known).filter(|(_, was_known)| !was_known) {
            self.is_newest(name, *id, self.tokens[id]);
        }
        for name in &self.names {
            let by = &self.callers[0];
            let shown = by.session.line(name).await.unwrap();
            let line = self.world.line(name);
            assert_eq!(
                (shown.kind, shown.capacity),
                (line.map(|line| line.kind), line.map(|line| line.capacity))
            );
            let shown: Vec<_> =
                shown.claims.iter().map(|claim| (claim.id, claim.weight, claim.token)).collect();
            let claims = line.map(|line| &line.claims[..]).unwrap_or_default();
            let right: Vec<_> = claims
                .iter()
                .map(|claim| {
                    (claim.id, claim.weight, claim.token.and_then(|_| self.tokens.get(&claim.id).copied()))
                })
                .collect();
            assert_eq!(shown, right, "the line of {name:?}");
            assert!(claims.iter().all(|claim| claim.token.is_some() == self.tokens.contains_key(&claim.id)));
        }
    }
}

/// The kind of error that a refusal is to a client.
fn refused(why: Refusal) -> Option<ErrorKind> {
    match why {
        Refusal::Kind(_) => Some(ErrorKind::KindMismatch),
        Refusal::Capacity(_) => Some(ErrorKind::Conflict),
        Refusal::TooHeavy(_) | Refusal::Strands(_) | Refusal::Heavier(_) => Some(ErrorKind::InvalidPermits),
        _ => None,
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn lines_of_nodes_do_what_the_rule_does() {
    let store = Store::open(&site::url()).unwrap();
    let replayed = std::env::var("TIDELOCK_MODEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let first = replayed.unwrap_or(u64::try_from(since.as_micros()).unwrap() << 12);
    let count = if replayed.is_some() { 1 } else { SEQUENCES };
    println!("{count} sequences, of the seeds from {first} on");
    let (next, namespace) = (Arc::new(AtomicU64::new(first)), site::namespace("model"));
    let mut crews = JoinSet::new();
    for which in 1..=AT_ONCE.min(count) {
        let (store, next) = (store.clone(), next.clone());
        let options = Options::new().ttl(Duration::from_secs(60)).namespace(&namespace);
        crews.spawn(async move {
            let (mut callers, mut last) = (Vec::new(), 0);
            for session in 1..=3 {
                callers.push(Caller::open(&store, which << 8 | session, &options).await);
            }
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    break;
                }
                Pair::new(&store, &options, &mut callers, &mut last, seed).run().await;
            }
            for caller in callers {
                caller.session.close().await.unwrap();
            }
        });
    }
    while let Some(crew) = crews.join_next().await {
        if crew.is_err() {
            crews.shutdown().await;
        }
        crew.unwrap();
    }
}
