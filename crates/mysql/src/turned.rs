//! The statements against the rule, on a real server, under a clock that the test turns.
//!
//! Random operations go to the store and to the model's `World`. The clock is one expression in the statements, and a
//! number is put in its place; the world's time passes by as much. After each operation the line that the server keeps
//! must be the world's, claim by claim, and every new token greater than all before on that name. Two clients share
//! each session, so what one of them remembers does not help the other: the server has to know which joins are void or
//! repeated.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_TURNED_SEED=SEED` runs that one alone. `TIDELOCK_DEEP=1` runs
//! ten times as many.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidelock_core::backend::{Claim, Grant, Left, Patience, Place, Signals, boot_clock};
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, Result, SessionId};
use tidelock_model::{Dice, Event, Join, Leave, Op, Refusal, Wishes, World};

use crate::address::Address;
use crate::check;
use crate::link::{Idling, Link, Reads};
use crate::open_session::{OpenSession, Parts};
use crate::packet::Caller;
use crate::request::{Action, Outcome};
use crate::sql::{self, Namespace, put};
use crate::trouble::Said;

const SECOND: u64 = 1_000_000;
const TTLS: [u64; 3] = [SECOND, 3 * SECOND, 15 * SECOND];
const WITHIN: Duration = Duration::from_secs(20);
/// How many sequences run at the same time.
const SIDE_BY_SIDE: u64 = 12;

#[derive(Debug)]
struct Deaf;

impl Signals for Deaf {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}

struct Client {
    id: SessionId,
    twins: [Arc<OpenSession>; 2],
}

struct Sequence {
    clients: Vec<Client>,
    now: Arc<AtomicU64>,
    world: World<Name>,
    names: Vec<Name>,
    newest: BTreeMap<Name, u64>,
    tokens: BTreeMap<ClaimId, u64>,
    /// The names that were not looked after since time has passed.
    stale: Vec<Name>,
    joins: BTreeMap<ClaimId, Join<Name>>,
    log: Vec<String>,
}

/// One connection, and the clock that its statements see. Sequences use it one after another.
struct Server {
    now: Arc<AtomicU64>,
    link: Arc<Link>,
}

impl Server {
    fn at(url: &str) -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let mut link =
            Link::new(Address::parse(url).unwrap(), Reads::Committed, Idling::Pings, WITHIN, WITHIN);
        link.turned = Some(now.clone());
        Self { now, link: Arc::new(link) }
    }

    fn client(&self, id: SessionId, ttl: u64, namespace: &str) -> Arc<OpenSession> {
        Arc::new(OpenSession::new(Parts {
            id,
            ttl: Duration::from_micros(ttl),
            within: WITHIN,
            caller: Caller { session: id, namespace: Namespace::of(namespace) },
            lane: self.link.clone(),
            looks: self.link.clone(),
            beats: self.link.clone(),
            bell: self.link.clone(),
            clock: boot_clock(),
            signals: Arc::new(Deaf),
            until: boot_clock().now() + WITHIN,
        }))
    }

    /// Begins the lifetime of a session.
    async fn open(&self, id: SessionId, ttl: u64) {
        let mut text = String::new();
        put(&mut text, sql::OPEN, &[("me", &id.get()), ("ttl", &ttl), ("label", &"''")]);
        self.link.ask(&text).await.unwrap();
    }
}

impl Sequence {
    async fn begin(seed: u64, server: &Server, dice: &Dice) -> Self {
        server.now.store(2_000_000_000 * SECOND + dice.below(SECOND), Ordering::Relaxed);
        let mut world = World::new();
        let names = ["stock", "a'b", "é {"].map(|name| Name::new(name).unwrap()).to_vec();
        let mut clients = Vec::new();
        for number in 1..=3 {
            let (id, ttl) = (SessionId::from_bits(seed << 3 | number), *dice.pick(&TTLS));
            world.step(Op::Open { session: id, ttl });
            let twin = || server.client(id, ttl, &format!("turned {seed:x}"));
            clients.push((Client { id, twins: [twin(), twin()] }, ttl));
        }
        let (clients, ttls): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
        let (newest, tokens, stale, joins, log) = Default::default();
        let now = server.now.clone();
        let sequence = Self { clients, now, world, names, newest, tokens, stale, joins, log };
        sequence.clean(seed).await.unwrap();
        for (client, ttl) in sequence.clients.iter().zip(ttls) {
            server.open(client.id, ttl).await;
        }
        sequence
    }

    /// Deletes all rows of the sequence; a run of this seed that failed may have left some.
    async fn clean(&self, seed: u64) -> Result<(), Said> {
        let hex: String = format!("turned {seed:x}").bytes().map(|byte| format!("{byte:02x}")).collect();
        let ids = sql::list((1..=3).map(|number| SessionId::from_bits(seed << 3 | number).get()));
        let text = format!(
            "DELETE FROM tidelock_claim WHERE session IN ({ids}); DELETE FROM tidelock_session WHERE id IN ({ids}); \
             DELETE FROM tidelock_bell WHERE session IN ({ids}); \
             DELETE FROM tidelock_line WHERE name >= x'{hex}' AND name < CONCAT(x'{hex}', x'01')"
        );
        self.clients[0].twins[0].lane.ask(&text).await.map(drop)
    }

    fn client(&self, session: SessionId, dice: &Dice) -> Arc<OpenSession> {
        let client = self.clients.iter().find(|client| client.id == session).unwrap();
        client.twins[usize::from(dice.one_in(3))].clone()
    }

    /// One operation. An error says what is wrong.
    async fn step(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<(), String> {
        let (roll, passes) = (wishes.dice().below(100), wishes.dice().one_in(3));
        if passes {
            self.pass(wishes.dice());
            if self.world.sessions().next().is_none() {
                return Ok(());
            }
        }
        let name = match roll {
            0..45 => self.join(wishes).await?,
            45..75 => self.leave(wishes).await?,
            75..82 => self.lighten(wishes).await?,
            82..88 => self.resize(wishes).await?,
            88..94 => self.renew(wishes).await?,
            _ => wishes.name(),
        };
        // A request may have begun to look after the line in the background: that is finished soon.
        let mut tries = 0;
        loop {
            match self.agree(&name, wishes.dice()).await {
                Err(_) if tries < 40 => tries += 1,
                agrees => return agrees,
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn pass(&mut self, dice: &Dice) {
        let by = *dice.pick(&[1, 5, 1_000, 300_000, SECOND / 2, SECOND, 4 * SECOND]);
        let by = 1 + dice.below(by);
        self.now.fetch_add(by, Ordering::Relaxed);
        self.world.step(Op::Pass(by));
        self.stale.clone_from(&self.names);
        self.log.push(format!("{by} µs pass"));
    }

    async fn join(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<Name, String> {
        let (name, id) = match wishes.dice().one_in(4) {
            true => wishes.anyone(&self.world),
            false => {
                let name = wishes.name();
                let id = wishes.fresh(&self.world, &name);
                (name, id)
            }
        };
        let drawn = wishes.join(&self.world, &name, id);
        let join = self.joins.entry(id).or_insert(drawn).clone();
        let mut claim = Claim::new(id, name.clone(), join.kind, join.weight, join.capacity);
        claim.id = id;
        let session = self.client(id.session, wishes.dice());
        let in_rows = join.kind == Kind::Mutex && wishes.dice().one_in(4);
        let answer = session.gather(&name, Action::Join { claim, patience: join.patience, in_rows }).await;
        let event = self.world.step(Op::Join(join.clone())).remove(0);
        self.log.push(format!("{join:?}: {answer:?}, the rule: {event:?}"));
        let is_stale = self.stale.contains(&name);
        let is_right = match (&event, &answer) {
            (Event::Held { .. }, Ok(Outcome::Joined(Place::Held { .. })))
            | (Event::Waiting { .. }, Ok(Outcome::Joined(Place::Waiting { .. })))
            | (Event::Refused { why: Refusal::Busy, .. }, Ok(Outcome::Joined(Place::Refused)))
            | (Event::Refused { why: Refusal::Void, .. }, Ok(Outcome::Joined(Place::Gone)))
            // Its client learns that from the next renewal; until then its claim is dead in line.
            | (Event::Refused { why: Refusal::SessionOver, .. }, _) => true,
            // A claim before it is dead, and nobody has found that out yet.
            (Event::Held { .. }, Ok(Outcome::Joined(Place::Waiting { .. }))) => is_stale,
            (Event::Refused { why, .. }, Err(error)) => {
                let wanted = Error::of_refusal(*why);
                wanted.is_some_and(|wanted| {
                    wanted.kind() == error.kind() && wanted.to_string() == error.to_string()
                })
            }
            _ => false,
        };
        is_right.then_some(name).ok_or_else(|| format!("the rule says {event:?}, the store {answer:?}"))
    }

    async fn leave(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<Name, String> {
        let (name, id) = wishes.anyone(&self.world);
        let by = wishes.leaver(&self.world, id);
        let stands = self.world.line(&name).is_some_and(|line| line.claim(id).is_some());
        // Only a claim that stands in line is evicted as void.
        let may_be_void = by == id.session || stands;
        let how = if may_be_void && wishes.dice().one_in(3) { Leave::Void } else { Leave::Done };
        let session = self.client(by, wishes.dice());
        let answer = session.gather(&name, Action::Leave { id, how }).await;
        let is_over = self.world.session(id.session).is_none();
        let event = self.world.step(Op::Leave { name: name.clone(), id, how }).remove(0);
        self.log.push(format!("{by} leaves {id} {how:?} on {name}: {answer:?}, the rule: {event:?}"));
        let is_stale = self.stale.contains(&name);
        let is_right = match (&event, &answer) {
            (Event::Left { left, .. }, Ok(Outcome::Left(said))) => {
                left == said || is_over || is_stale && *left == Left::Held && *said == Left::Waiting
            }
            _ => false,
        };
        is_right.then_some(name).ok_or_else(|| format!("the rule says {event:?}, the store {answer:?}"))
    }

    async fn lighten(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<Name, String> {
        let (name, id) = wishes.anyone(&self.world);
        let holds =
            self.world.line(&name).and_then(|line| line.claim(id)).is_some_and(|claim| claim.token.is_some());
        if !holds {
            return Ok(name); // core lightens only what holds
        }
        let weight = wishes.dice().weight(3);
        let session = self.client(id.session, wishes.dice());
        let answer = match session.tidied(&name).await {
            Ok(_) => session.gather(&name, Action::Lighten { id, weight }).await,
            Err(error) => Err(error),
        };
        let event = self.world.step(Op::Lighten { name: name.clone(), id, weight }).remove(0);
        self.log.push(format!("{id} to {weight} on {name}: {answer:?}, the rule: {event:?}"));
        Self::same(&event, &answer).map(|()| name)
    }

    async fn resize(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<Name, String> {
        let (name, from, to) = wishes.resize(&self.world);
        let session = self.client(wishes.session(&self.world), wishes.dice());
        let answer = match session.tidied(&name).await {
            Ok(_) => session.gather(&name, Action::Resize { from, to }).await,
            Err(error) => Err(error),
        };
        let event = self.world.step(Op::Resize { name: name.clone(), from, to }).remove(0);
        self.log.push(format!("{from} to {to} on {name}: {answer:?}, the rule: {event:?}"));
        Self::same(&event, &answer).map(|()| name)
    }

    fn same(event: &Event<Name>, answer: &Result<Outcome>) -> Result<(), String> {
        let is_right = match (event, answer) {
            (
                Event::Lightened { .. } | Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. },
                Ok(Outcome::Done),
            ) => true,
            (Event::Absent { .. }, Err(error)) => error.kind() == ErrorKind::Conflict,
            (Event::Refused { why, .. }, Err(error)) => {
                Error::of_refusal(*why).is_some_and(|wanted| wanted.to_string() == error.to_string())
            }
            _ => false,
        };
        is_right.then_some(()).ok_or_else(|| format!("the rule says {event:?}, the store {answer:?}"))
    }

    async fn renew(&mut self, wishes: &mut Wishes<'_, Name>) -> Result<Name, String> {
        let client = wishes.dice().pick(&self.clients).id;
        let mut standing: BTreeMap<Name, Vec<ClaimId>> = BTreeMap::new();
        let mut waits = Vec::new();
        for (name, line) in self.world.lines() {
            for claim in line.claims.iter().filter(|claim| claim.id.session == client) {
                standing.entry(name.clone()).or_default().push(claim.id);
                if claim.token.is_none() {
                    waits.push(claim.id);
                }
            }
        }
        let standing: Vec<_> = standing.into_iter().collect();
        let session = self.client(client, wishes.dice());
        session.requests.store(0, Ordering::Relaxed); // each sequence has its own time, and a sweep is for all
        let answer = session.renew(&standing).await;
        let event = self.world.step(Op::Renew(client)).remove(0);
        self.log.push(format!("{client} renews: {answer:?}, the rule: {event:?}"));
        let is_right = match (&event, &answer) {
            (Event::Lives { .. }, Ok(renewal)) => {
                let waits_too = |id: &ClaimId| renewal.waiting.contains(id);
                renewal.gone.is_empty() && renewal.strays.is_empty() && waits.iter().all(waits_too)
            }
            (Event::Over { .. }, Err(error)) => error.kind() == ErrorKind::Lost,
            _ => false,
        };
        is_right
            .then(|| self.names[0].clone())
            .ok_or_else(|| format!("the rule says {event:?}, the store {answer:?}"))
    }

    /// Looks after the line, and compares it.
    async fn agree(&mut self, name: &Name, dice: &Dice) -> Result<(), String> {
        let Some((open, _)) = self.world.sessions().next() else { return Ok(()) };
        let session = self.client(open, dice);
        session.tidied(name).await.map_err(|error| format!("{error:?}"))?;
        self.stale.retain(|stale| stale != name);
        let line = session.inspect(name).await.map_err(|error| format!("{error:?}"))?;
        let wanted = self.world.line(name);
        let shown: Vec<_> =
            line.claims.iter().map(|claim| (claim.id, claim.weight, claim.token.is_some())).collect();
        let right: Vec<_> = wanted.map(|line| &line.claims[..]).unwrap_or_default().iter().collect();
        let right: Vec<_> =
            right.iter().map(|claim| (claim.id, claim.weight, claim.token.is_some())).collect();
        if shown != right
            || line.kind != wanted.map(|line| line.kind)
            || line.capacity != wanted.map(|line| line.capacity)
        {
            return Err(format!("the line of {name} is {wanted:?}, but the store shows {line:?}"));
        }
        // A claim that left and joins again is a new one.
        let stands = |id: &ClaimId| line.claims.iter().any(|claim| claim.id == *id && claim.is_held());
        let here = |id: &ClaimId| self.joins.get(id).is_some_and(|join| join.name == *name);
        self.tokens.retain(|id, _| !here(id) || stands(id));
        for claim in &line.claims {
            let Some(token) = claim.token.map(tidelock_core::Token::get) else { continue };
            let newest = self.newest.entry(name.clone()).or_default();
            match self.tokens.get(&claim.id) {
                Some(known) if *known == token => {}
                None if token > *newest => {}
                known => {
                    return Err(format!(
                        "the token of {} is {token}, after {known:?} and {newest}",
                        claim.id
                    ));
                }
            }
            self.tokens.insert(claim.id, token);
            *newest = (*newest).max(token);
        }
        Ok(())
    }
}

async fn run(seed: u64, server: &Server) -> Result<u64, String> {
    let dice = Dice::new(seed, "turned");
    let mut last_number = 0;
    let mut sequence = Sequence::begin(seed, server, &dice).await;
    let mut wishes = Wishes::new(seed, sequence.names.clone(), &mut last_number);
    let steps = 10 + dice.below(40);
    for _ in 0..steps {
        if sequence.world.sessions().next().is_none() {
            break;
        }
        sequence.step(&mut wishes).await.map_err(|wrong| {
            format!("{wrong}\nsequence TIDELOCK_TURNED_SEED={seed}:\n    {}", sequence.log.join("\n    "))
        })?;
    }
    sequence.clean(seed).await.map_err(|said| format!("{said:?}"))?;
    Ok(sequence.log.len() as u64)
}

fn url() -> String {
    std::env::var("TIDELOCK_MARIADB_URL").unwrap()
}

/// A seed that no earlier run has used, and room for many more behind it.
fn fresh_seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_micros()).unwrap() << 8 & (u64::MAX >> 5)
}

/// With the tables. The tests of this page run one at a time: each has its own time, and a sweep is for all.
async fn prepared() -> (Server, tokio::sync::MutexGuard<'static, ()>) {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let alone = ALONE.lock().await;
    let server = Server::at(&url());
    check::server(&server.link, true).await.unwrap();
    (server, alone)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_statements_do_what_the_rule_does_whatever_time_it_is() {
    let (server, _alone) = prepared().await;
    if let Ok(seed) = std::env::var("TIDELOCK_TURNED_SEED") {
        run(seed.parse().unwrap(), &server).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        return;
    }
    let is_deep = std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1");
    let count = if is_deep { 4_000 } else { 400 };
    // Nothing here is about what a crash leaves, so nothing waits for the disk.
    server.link.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 0").await.unwrap();
    let (first, began) = (fresh_seed(), std::time::Instant::now());
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..SIDE_BY_SIDE {
        let next = next.clone();
        workers.spawn(async move {
            let (server, mut operations) = (Server::at(&url()), 0);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(operations);
                }
                operations += run(first + number, &server).await?;
            }
        });
    }
    let done: Vec<Result<u64, String>> = workers.join_all().await;
    server.link.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1").await.unwrap();
    let operations: u64 = done.into_iter().map(|done| done.unwrap_or_else(|wrong| panic!("{wrong}"))).sum();
    println!("{count} sequences, {operations} operations in {:?}", began.elapsed());
}

async fn taken(client: &Arc<OpenSession>, name: &Name, number: u64) -> u64 {
    let (id, one) = (ClaimId { session: client.id, number }, tidelock_core::Weight::ONE);
    let claim = Claim::new(id, name.clone(), Kind::Mutex, one, one);
    let join = Action::Join { claim, patience: Patience::Wait, in_rows: false };
    let Ok(Outcome::Joined(Place::Held { grant, .. })) = client.gather(name, join).await else {
        panic!("{name} is free");
    };
    client.gather(name, Action::Leave { id, how: Leave::Done }).await.unwrap();
    grant.token.get()
}

/// The row of an unused name is dropped, and with it its newest token. Then the clock is set back, further than the row
/// was kept.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn tokens_grow_although_their_name_was_forgotten_and_the_clock_set_back() {
    let (server, _alone) = prepared().await;
    const HOUR: u64 = 3_600 * SECOND;
    let seed = fresh_seed();
    let later = 1_900_000_000 * SECOND;
    let ids = [1, 2].map(|number| SessionId::from_bits(seed << 3 | number));
    let namespace = format!("forgotten {seed:x}");
    let names = ["taken at once", "taken by a section"].map(|name| Name::new(name).unwrap());
    server.now.store(later, Ordering::Relaxed);
    server.link.ask("UPDATE tidelock_floor SET token = 0").await.unwrap(); // of the other tests' clocks
    server.open(ids[0], HOUR).await;
    let before = server.client(ids[0], HOUR, &namespace);
    let mut tokens = Vec::new();
    for (name, number) in names.iter().zip(1..) {
        tokens.push(taken(&before, name, number).await);
    }
    server.now.store(later + 2 * HOUR, Ordering::Relaxed);
    server.open(ids[1], HOUR).await;
    let after = server.client(ids[1], HOUR, &namespace);
    let of_mine = format!(
        "SELECT name FROM tidelock_line WHERE name >= {} AND name < {}",
        Namespace::of(&namespace).after(""),
        Namespace::of(&namespace).behind("")
    );
    assert_eq!(server.link.ask(&of_mine).await.unwrap().rows.len(), 2);
    for _ in 0..100 {
        after.sweep().await.unwrap();
        if server.link.ask(&of_mine).await.unwrap().rows.is_empty() {
            break;
        }
    }
    assert!(server.link.ask(&of_mine).await.unwrap().rows.is_empty(), "the names are swept");
    server.now.store(later - 3 * HOUR, Ordering::Relaxed);
    after.own_claims.set_busy(&names[1], Some(Kind::RwLock)); // so it takes the long way
    for ((name, number), token) in names.iter().zip(1..).zip(tokens) {
        let now = taken(&after, name, number).await;
        assert!(now > token, "{name}: {now} after {token}");
    }
}

/// What a dead client of another namespace has left, in rows or not, is gone after somebody's renewals.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whoever_comes_along_cleans_up_for_all_namespaces() {
    let (server, _alone) = prepared().await;
    let seed = fresh_seed();
    let now = 1_950_000_000 * SECOND;
    let ids = [1, 2, 3].map(|number| SessionId::from_bits(seed << 3 | number));
    let namespace = format!("left {seed:x}");
    server.now.store(now, Ordering::Relaxed);
    for id in &ids {
        server.open(*id, 10 * SECOND).await;
    }
    let clients = ids.map(|id| server.client(id, 10 * SECOND, &namespace));
    let one = tidelock_core::Weight::ONE;
    for (client, patience) in clients[..2].iter().zip([Patience::Now, Patience::Wait]) {
        for (name, number) in ["waited for", "held", "held too"].iter().zip(1..).take(3) {
            let name = Name::new(*name).unwrap();
            if patience == Patience::Wait && number > 1 {
                break;
            }
            let id = ClaimId { session: client.id, number };
            let claim = Claim::new(id, name.clone(), Kind::Mutex, one, one);
            client.gather(&name, Action::Join { claim, patience, in_rows: false }).await.unwrap();
        }
    }
    // And a name in rows that nobody has a claim on.
    let void = Name::new("void").unwrap();
    let id = ClaimId { session: ids[2], number: 9 };
    clients[2].gather(&void, Action::Leave { id, how: Leave::Void }).await.unwrap();
    server.now.store(now + 4_000 * SECOND, Ordering::Relaxed);
    let stranger = SessionId::from_bits(seed << 3 | 4);
    server.open(stranger, 10_000 * SECOND).await;
    let stranger = server.client(stranger, 10_000 * SECOND, &format!("another {seed:x}"));
    let key = Namespace::of(&namespace);
    let left = format!(
        "SELECT name FROM tidelock_line WHERE name >= {from} AND name < {to} UNION ALL \
         SELECT name FROM tidelock_claim WHERE name >= {from} AND name < {to} UNION ALL \
         SELECT id FROM tidelock_session WHERE id IN ({ids}) UNION ALL \
         SELECT session FROM tidelock_bell WHERE session IN ({ids})",
        from = key.after(""),
        to = key.behind(""),
        ids = sql::list(ids.iter().map(|id| id.get()))
    );
    assert!(server.link.ask(&left).await.unwrap().rows.len() >= 9);
    let mut rows = Vec::new();
    for _ in 0..200 {
        stranger.sweep().await.unwrap();
        rows = server.link.ask(&left).await.unwrap().rows;
        if rows.is_empty() {
            return;
        }
        // A name is kept for an hour after its last use, which may be that of a grant to the dead.
        server.now.fetch_add(100 * SECOND, Ordering::Relaxed);
    }
    panic!("left: {rows:?}");
}
