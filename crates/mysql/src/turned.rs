//! The statements against the rule, on a real server, under a clock that the test turns.
//!
//! Random operations go to the store and to the model's `World`. The clock is one expression in the statements, and a
//! number is put in its place; the world's time passes by as much. After each operation the line that the server keeps
//! must be the world's, claim by claim, and every new token greater than all before on that name. Two clients share
//! each session, so what one of them remembers does not help the other: the server has to know which joins are void or
//! repeated.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_TURNED_SEED=SEED` runs that one alone. `TIDELOCK_DEEP=1` runs
//! more.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidelock_core::backend::{Claim, Grant, Left, Place, Signals, boot_clock};
use tidelock_core::{ClaimId, Error, ErrorKind, Name, Result, SessionId};
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

fn link(now: &Arc<AtomicU64>, url: &str) -> Link {
    let mut link = Link::new(Address::parse(url).unwrap(), Reads::Committed, Idling::Pings, WITHIN, WITHIN);
    link.turned = Some(now.clone());
    link
}

impl Sequence {
    async fn begin(seed: u64, url: &str, dice: &Dice) -> Self {
        let now = Arc::new(AtomicU64::new(2_000_000_000 * SECOND + dice.below(SECOND)));
        let mut world = World::new();
        let names = ["stock", "a'b", "é {"].map(|name| Name::new(name).unwrap()).to_vec();
        let mut clients = Vec::new();
        for number in 1..=3 {
            let (id, ttl) = (SessionId::from_bits(seed << 3 | number), *dice.pick(&TTLS));
            world.step(Op::Open { session: id, ttl });
            let twin = || {
                let namespace = Namespace::of(&format!("turned {seed:x}"));
                Arc::new(OpenSession::new(Parts {
                    id,
                    ttl: Duration::from_micros(ttl),
                    within: WITHIN,
                    caller: Caller { session: id, namespace },
                    lane: link(&now, url),
                    looks: link(&now, url),
                    beats: link(&now, url),
                    bell: link(&now, url),
                    clock: boot_clock(),
                    signals: Arc::new(Deaf),
                    until: boot_clock().now() + WITHIN,
                }))
            };
            let twins = [twin(), twin()];
            clients.push((Client { id, twins }, ttl));
        }
        let (clients, ttls): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
        let (newest, tokens, stale, joins, log) = Default::default();
        let sequence = Self { clients, now, world, names, newest, tokens, stale, joins, log };
        sequence.clean(seed).await.unwrap();
        for (client, ttl) in sequence.clients.iter().zip(ttls) {
            let mut text = String::new();
            put(&mut text, sql::OPEN, &[("me", &client.id.get()), ("ttl", &ttl), ("label", &"''")]);
            client.twins[0].lane.ask(&text).await.unwrap();
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
        let answer = session.gather(&name, Action::Join { claim, patience: join.patience }).await;
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
        let answer = self.client(client, wishes.dice()).renew(&standing).await;
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

async fn run(seed: u64, url: &str) -> Result<u64, String> {
    let dice = Dice::new(seed, "turned");
    let mut last_number = 0;
    let mut sequence = Sequence::begin(seed, url, &dice).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_statements_do_what_the_rule_does_whatever_time_it_is() {
    let url = std::env::var("TIDELOCK_MARIADB_URL").unwrap();
    let now = Arc::new(AtomicU64::new(0));
    check::server(&link(&now, &url), true).await.unwrap();
    if let Ok(seed) = std::env::var("TIDELOCK_TURNED_SEED") {
        run(seed.parse().unwrap(), &url).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        return;
    }
    let is_deep = std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1");
    let count = if is_deep { 2_400 } else { 240 };
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let first = u64::try_from(since.as_micros()).unwrap() << 8 & (u64::MAX >> 5);
    let (began, mut operations) = (std::time::Instant::now(), 0);
    const SIDE_BY_SIDE: u64 = 8;
    for round in 0..count / SIDE_BY_SIDE {
        let mut running = tokio::task::JoinSet::new();
        for place in 0..SIDE_BY_SIDE {
            let url = url.clone();
            running.spawn(async move { run(first + round * SIDE_BY_SIDE + place, &url).await });
        }
        while let Some(done) = running.join_next().await {
            operations += done.unwrap().unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
    println!("{count} sequences, {operations} operations in {:?}", began.elapsed());
}
