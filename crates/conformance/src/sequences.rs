//! Lines that a store shows, against the rule: after every operation of many short random sequences the store shows the
//! same as [`World`], and every client whose turn has come is told so.
//!
//! Sequences run side by side, each on names of its own, with three clients; some of them may end on the way, and some
//! acquires are given up half-way.
//!
//! The intended differences from the model are these two only:
//! - [`Evicted`] says when another client's claim may be made void.
//! - Only a writer can be made lighter: it becomes a reader.
//!
//! A failure prints its sequence and its seed. `TIDELOCK_MODEL_SEED=SEED` runs that sequence alone; `TIDELOCK_DEEP=1` runs
//! many more.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // a test that goes wrong panics

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use tidelock_core::backend::{Backend, Claim, Leave, Left, Patience, Place, Shard};
use tidelock_core::{ClaimId, ErrorKind, Kind, Name, Options, SessionId, Token, Weight};
use tidelock_model::{Event, Join, Op, Refusal, Wishes, World};
use tokio::task::JoinSet;

use crate::callers::{self, Caller};

const SEQUENCES: u64 = 2_000;
const DEEP: u64 = 50_000;
const AT_ONCE: u64 = 16;
const NAMES: [&str; 3] = ["..", "a/b", "é 🚂"];

/// Whether a client may make another one's claim void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Never: a void claim is remembered by its own client.
    Leaves,
    /// If it stands in line.
    IsVoid,
}

/// Runs sequences on a store until one of them differs from the rule.
///
/// # Panics
/// If a sequence differs.
pub async fn agree(store: Arc<dyn Backend>, evicted: Evicted) {
    let replayed = std::env::var("TIDELOCK_MODEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let is_deep = std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1");
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let first = replayed.unwrap_or(u64::try_from(since.as_micros()).unwrap() << 12);
    let count = match (replayed, is_deep) {
        (Some(_), _) => 1,
        (None, false) => SEQUENCES,
        (None, true) => DEEP,
    };
    println!("{count} sequences, with seeds from {first} on");
    let (next, namespace) = (Arc::new(AtomicU64::new(first)), callers::namespace("model"));
    let mut crews = JoinSet::new();
    for which in 1..=AT_ONCE.min(count) {
        let (store, next) = (store.clone(), next.clone());
        let options = Options::new().ttl(Duration::from_secs(60)).namespace(&namespace);
        crews.spawn(async move {
            let (mut callers, mut last_number) = (Vec::new(), 0);
            for session in 1..=3 {
                callers.push(Caller::open(&*store, which << 8 | session, &options).await);
            }
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    break;
                }
                let site = Site { store: &*store, options: &options, evicted };
                Pair::new(site, &mut callers, &mut last_number, seed).run().await;
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

/// Where sequences run.
#[derive(Clone, Copy)]
struct Site<'a> {
    store: &'a dyn Backend,
    options: &'a Options,
    evicted: Evicted,
}

/// One sequence: the model and the server, side by side.
struct Pair<'a> {
    seed: u64,
    site: Site<'a>,
    callers: &'a mut Vec<Caller>,
    world: World<Name>,
    wishes: Wishes<'a, Name>,
    log: Vec<String>,
    /// The clients that must be told to look, and the claim that each then finds to have its turn.
    granted: Vec<(Name, ClaimId)>,
    /// Each claim's join.
    asked: BTreeMap<ClaimId, Join<Name>>,
    tokens: BTreeMap<ClaimId, Token>,
    newest: BTreeMap<Name, Token>,
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("\nsequence TIDELOCK_MODEL_SEED={} on {:?}:", self.seed, self.wishes.names());
            self.log.iter().for_each(|line| eprintln!("    {line}"));
        }
    }
}

impl<'a> Pair<'a> {
    fn new(site: Site<'a>, callers: &'a mut Vec<Caller>, last_number: &'a mut u64, seed: u64) -> Self {
        let mut world = World::new();
        for caller in callers.iter() {
            world.step(Op::Open { session: caller.id, ttl: 1 });
        }
        let of = |odd| if seed & 1 == 0 { format!("{odd}{seed:x}") } else { format!("{seed:x}{odd}") };
        let names = NAMES.iter().map(|odd| callers::name(&of(odd))).collect();
        Self {
            seed,
            site,
            callers,
            world,
            wishes: Wishes::new(seed, names, last_number),
            log: Vec::new(),
            granted: Vec::new(),
            asked: BTreeMap::new(),
            tokens: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..6 + self.wishes.dice().below(9) {
            match self.wishes.dice().below(100) {
                0..42 => {
                    let name = self.wishes.name();
                    let id = self.wishes.fresh(&self.world, &name);
                    match self.wishes.dice().one_in(8) {
                        true => self.give_up(name, id).await,
                        false => self.join(name, id).await,
                    }
                }
                42..47 => {
                    let (name, id) = self.wishes.anyone(&self.world);
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
        for name in self.wishes.names().to_vec() {
            while let Some(line) = self.world.line(&name) {
                let id = self.wishes.stander(line);
                self.leave_one(id.session, &name, id, Leave::Done).await;
                self.compare().await;
            }
        }
    }

    fn caller(&self, session: SessionId) -> Option<&Caller> {
        self.callers.iter().find(|caller| caller.id == session)
    }

    // Each operation, on both the model and the server.

    async fn join(&mut self, name: Name, id: ClaimId) {
        let mut join = self.wishes.join(&self.world, &name, id);
        if self.world.line(&name).is_some_and(|line| line.claim(id).is_some()) {
            join = self.asked[&id].clone(); // a repeated join asks for the same
            join.patience = Patience::Wait; // and has patience, since its claim stands in line
        }
        self.asked.insert(id, join.clone());
        self.log.push(format!("{join:?}"));
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
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
                self.leave_one(id.session, &name, id, Leave::Void).await; // as core does after every error
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
    }

    /// A join whose caller goes away while its answer is on the way: core makes the claim void.
    async fn give_up(&mut self, name: Name, id: ClaimId) {
        let join = self.wishes.join(&self.world, &name, id);
        self.log.push(format!("given up: {join:?}"));
        let claim = Claim::new(id, name.clone(), join.kind, join.weight, join.capacity);
        let session = self.caller(id.session).unwrap().session.clone();
        let mut joining = session.join(&claim, join.patience);
        for _ in 0..self.wishes.dice().below(3) {
            if joining.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(joining);
        session.leave(&name, id, Leave::Void).await.unwrap();
        self.world.step(Op::Leave { name: name.clone(), id, how: Leave::Void });
        assert_eq!(
            session.join(&claim, join.patience).await.unwrap(),
            Place::Gone,
            "a void claim comes alive"
        );
        self.caller(id.session).unwrap().heard.has_left(id);
    }

    async fn leave(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
        let by = self.wishes.leaver(&self.world, id);
        let stands = self.world.line(&name).is_some_and(|line| line.claim(id).is_some());
        let may_void = by == id.session || (stands && self.site.evicted == Evicted::IsVoid);
        let is_void = may_void && self.wishes.dice().one_in(4);
        for _ in 0..=u8::from(self.wishes.dice().one_in(8)) {
            self.leave_one(by, &name, id, if is_void { Leave::Void } else { Leave::Done }).await;
        }
    }

    async fn leave_one(&mut self, by: SessionId, name: &Name, id: ClaimId, how: Leave) {
        self.log.push(format!("{by} has {id} leave {name:?}, {how:?}"));
        let reply = self.caller(by).unwrap().session.leave(name, id, how).await.unwrap();
        let events = self.world.step(Op::Leave { name: name.clone(), id, how });
        let Event::Left { left, .. } = events[0] else { panic!("{events:?}") };
        assert_eq!(reply, left);
        self.tokens.remove(&id);
        if let Some(caller) = self.caller(id.session) {
            caller.heard.has_left(id);
        }
        self.expect(&events);
        if by != id.session && left != Left::Absent && self.caller(id.session).is_some() {
            // Its own client learns of it from a renewal.
            let standing = [(name.clone(), vec![id])];
            let renewal = self.caller(id.session).unwrap().session.renew(Shard(0), &standing).await.unwrap();
            assert_eq!(renewal.gone, [id]);
        }
    }

    async fn lighten(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
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
        let (name, from, to) = self.wishes.resize(&self.world);
        let by = self.wishes.session(&self.world);
        self.log.push(format!("{by} resizes {name:?} from {from} to {to}"));
        let reply = self.caller(by).unwrap().session.resize(&name, from, to).await;
        let events = self.world.step(Op::Resize { name: name.clone(), from, to });
        match (&events[0], reply) {
            (Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. }, Ok(())) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events);
    }

    async fn renew(&mut self) {
        let by = self.wishes.session(&self.world);
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
        let ending = self.wishes.session(&self.world);
        let at = self.callers.iter().position(|caller| caller.id == ending).unwrap();
        let next =
            Caller::open(self.site.store, self.callers[at].id.get() + (1 << 32), self.site.options).await;
        let ended = std::mem::replace(&mut self.callers[at], next);
        self.log.push(format!("{} ends", ended.id));
        ended.session.close().await.unwrap();
        let events = self.world.step(Op::Close(ended.id));
        self.world.step(Op::Open { session: self.callers[at].id, ttl: 1 });
        self.expect(&events);
    }

    // Model and server must agree on the rest.

    fn expect(&mut self, events: &[Event<Name>]) {
        for event in events {
            if let Event::Held { name, id, .. } = event {
                self.granted.push((name.clone(), *id));
            }
        }
    }

    /// A claim's token stays the same, and is newer than all earlier tokens of its name.
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
            assert!(
                sight.held.iter().any(|(held, _)| *held == id),
                "{id} has its turn, but was not seen: {sight:?}"
            );
            for (id, grant) in sight.held {
                assert_eq!(grant.capacity, self.world.line(&name).unwrap().capacity);
                self.tokens.insert(id, grant.token);
            }
        }
        // In the order of the grants: one look tells of all of a client's claims.
        for ((name, id), _) in granted.iter().zip(known).filter(|(_, was_known)| !was_known) {
            self.is_newest(name, *id, self.tokens[id]);
        }
        for name in self.wishes.names() {
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
