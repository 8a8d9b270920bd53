//! The scripts against the rule: after every operation of many short random sequences the server says, tells and shows
//! what `tidelock_model::World` does, and its books are right: sums, counts, and no key without an expiry.
//!
//! Sequences run side by side, each on its own names, with four clients of which some may die on the way. Nothing
//! sleeps: to end a lifetime, the test sets it to the past where the server stored it. Tokens are compared by order.
//!
//! By design the server differs from the model in this, and only in this:
//! - It has no sessions, only claims with lifetimes. So no join is refused because a session is over, and a void leave
//!   is remembered longer than its session. In this test a dead client sends only a renewal, which shows that it lost
//!   all its claims.
//! - A dead claim is removed when a script meets it. A dead waiter that no script has met yet is not shown; but a leave
//!   still finds it.
//! - Only a holder can be made lighter.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_MODEL_SEED=SEED` runs that one alone.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use redis::aio::MultiplexedConnection;
use site::{Caller, Told, name};
use tidelock_model::{Event, Join, Op, Refusal, Wishes, World};
use tidelock_redis::backend::{Claim, Leave, Left, Moment, Place, Shard, boot_clock, escape};
use tidelock_redis::{ClaimId, ErrorKind, Kind, Line, Name, Options, SessionId, Store, Token, Weight};
use tokio::task::JoinSet;

const SEQUENCES: u64 = 10_000;
const AT_ONCE: u64 = 24;
const TTL: Duration = Duration::from_secs(10 * 60);
const NAMES: [&str; 3] = ["}", "a/b", "é {"];

/// Four clients, and a connection that reads the keys directly.
struct Crew {
    callers: Vec<Caller>,
    label: String,
    namespace: String,
    keys: MultiplexedConnection,
}

impl Crew {
    async fn open(store: &Store, which: u64) -> Self {
        let namespace = format!("model {{{which}}}: {}", std::process::id());
        let mut callers = Vec::new();
        // With a long label there is hardly room for waiters in `one`, with a short one there is room for some.
        let label = format!("crew {which} {}", "é".repeat(if which.is_multiple_of(2) { 0 } else { 110 }));
        let options = Options::new().ttl(TTL).namespace(&namespace).label(&label);
        for session in 1..=4 {
            callers.push(Caller::open(store, which << 8 | session, &options).await);
        }
        Self { callers, label, namespace, keys: site::plain().await }
    }

    fn caller(&self, session: SessionId) -> &Caller {
        self.callers.iter().find(|caller| caller.id == session).unwrap()
    }

    fn channel(&self) -> String {
        format!("{}:", escape(&self.namespace, |c| "{}:".contains(c)))
    }

    fn key(&self, name: &Name, part: &str) -> String {
        format!("{}{{{}}}:{part}", self.channel(), escape(name, |c| "{}".contains(c)))
    }

    /// Runs one of the test's own scripts on the keys of a name.
    async fn script<T: redis::FromRedisValue>(&self, text: &str, name: &Name, arguments: &[String]) -> T {
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(3);
        for part in ["held", "line", "wait"] {
            command.arg(self.key(name, part));
        }
        command.arg(arguments);
        command.query_async(&mut self.keys.clone()).await.unwrap()
    }
}

/// Reads the keys. Also publishes a last message to the listeners; nothing older can arrive after it.
const PEEK: &str = "
    for i = 2, #ARGV do redis.call('PUBLISH', ARGV[i], 'gone ' .. ARGV[1]) end
    local left = {}
    for i = 1, 3 do left[i] = redis.call('PTTL', KEYS[i]) end
    return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[3]), left }";

/// Sets a session's lifetime on one name to the past.
const EXPIRE: &str = "
    local one, mine = redis.call('HGET', KEYS[1], 'one'), '%d+( . ' .. ARGV[1] .. '%-)'
    if one then
      one = string.gsub(one, '(\\n%d+ )' .. mine, '%100000000000%2')
      one = string.gsub(one, '^(' .. string.rep('.', 45) .. ')' .. mine, '%100000000000%2')
      redis.call('HSET', KEYS[1], 'one', one)
    end
    local function expire(key)
      local life = redis.call('HGET', key, 's:' .. ARGV[1])
      if life then redis.call('HSET', key, 's:' .. ARGV[1], (string.gsub(life, '^%d+ %d+', '000000000000001 00000000000'))) end
      return life
    end
    expire(KEYS[3])
    if expire(KEYS[1]) then
      local line = redis.call('HGET', KEYS[1], 'line')
      redis.call('HSET', KEYS[1], 'line', (string.gsub(line, '^(%d+ %d+ %d+) %d+ %d+', '%1 1 0')))
    end";

const OUTRUN: &str = "
    local one, last = redis.call('HGET', KEYS[1], 'one'), redis.call('HGET', KEYS[1], 'last')
    if one and #one == 26 then
      last = string.format('%015.0f', string.sub(one, 1, 15) + 6000000)
      redis.call('HSET', KEYS[1], 'one', last .. string.sub(one, 16))
    elseif last then
      last = string.format('%015.0f', last + 6000000)
      redis.call('HSET', KEYS[1], 'last', last)
    end
    return last";

type Peek = (BTreeMap<String, String>, BTreeMap<String, String>, [i64; 3]);

/// One sequence: the model and the server, side by side.
struct Pair<'a> {
    seed: u64,
    crew: &'a Crew,
    world: World<Name>,
    wishes: Wishes<'a, Name>,
    log: Vec<String>,
    /// Dead waiters that the server may not have met yet.
    unmet: Vec<(Name, ClaimId, Weight)>,
    /// The names on which something may have changed since the last comparison.
    touched: BTreeSet<Name>,
    /// The signals that clients must have got by now.
    expected: Vec<(SessionId, Expected)>,
    /// The grants in replies and signals since the last comparison.
    grants: Vec<(Token, Name, ClaimId)>,
    tokens: BTreeMap<ClaimId, Token>,
    newest: BTreeMap<Name, Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Held(ClaimId, Weight),
    Gone(ClaimId),
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
    fn new(crew: &'a Crew, last_number: &'a mut u64, seed: u64) -> Self {
        let mut world = World::new();
        for caller in &crew.callers {
            world.step(Op::Open { session: caller.id, ttl: 1 });
        }
        let names = NAMES.iter().map(|odd| name(&format!("{odd}{seed:x}"))).collect();
        Self {
            seed,
            crew,
            world,
            wishes: Wishes::new(seed, names, last_number),
            log: Vec::new(),
            unmet: Vec::new(),
            touched: BTreeSet::new(),
            expected: Vec::new(),
            grants: Vec::new(),
            tokens: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    async fn run(mut self) {
        let steps = 6 + self.wishes.dice().below(9);
        for _ in 0..steps {
            self.step().await;
        }
        self.end().await;
    }

    async fn step(&mut self) {
        match self.wishes.dice().below(100) {
            0..40 => {
                let name = self.wishes.name();
                self.join_new(&name).await;
                self.compare().await;
            }
            40..47 => self.join_again().await,
            47..74 => self.leave().await,
            74..79 => self.lighten().await,
            79..85 => self.resize().await,
            85..89 => self.look().await,
            89..95 => self.renew().await,
            95..97 => self.outrun().await,
            _ => self.die().await,
        }
    }

    // Random operations.

    async fn join_new(&mut self, name: &Name) {
        let id = self.wishes.fresh(&self.world, name);
        let wish = self.wishes.join(&self.world, name, id);
        self.join(wish).await;
    }

    async fn join_again(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
        if self.is_alive(id) {
            let wish = self.wishes.join(&self.world, &name, id);
            self.join(wish).await;
            self.compare().await;
        }
    }

    async fn leave(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
        let by = self.wishes.leaver(&self.world, id);
        let how = if self.wishes.dice().one_in(4) { Leave::Void } else { Leave::Done };
        for _ in 0..=u8::from(self.wishes.dice().one_in(8)) {
            self.leave_one(by, &name, id, how).await;
            self.compare().await;
        }
    }

    async fn lighten(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
        if !self.is_alive(id) {
            return;
        }
        let (weight, is_same) = (self.wishes.dice().weight(3), self.wishes.dice().one_in(4));
        let mine = self.world.line(&name).and_then(|line| line.claim(id)).map(|claim| claim.weight);
        self.lighten_one(&name, id, mine.filter(|_| is_same).unwrap_or(weight)).await;
        self.compare().await;
    }

    async fn resize(&mut self) {
        let (name, from, to) = self.wishes.resize(&self.world);
        self.resize_one(&name, from, to).await;
        self.compare().await;
    }

    async fn look(&mut self) {
        let (name, id) = self.wishes.anyone(&self.world);
        if self.is_alive(id) {
            self.look_at(&name, id.session, &[id]).await;
            self.compare().await;
        }
    }

    async fn renew(&mut self) {
        let session = self.wishes.session(&self.world);
        self.renew_one(session).await;
        self.compare().await;
    }

    /// Whether its client has not died.
    fn is_alive(&self, id: ClaimId) -> bool {
        self.world.session(id.session).is_some()
    }

    // Each operation, on the model and on the server.

    fn say(&mut self, name: &Name, what: String) {
        self.log.push(what);
        self.touched.insert(name.clone());
    }

    async fn join(&mut self, join: Join<Name>) {
        self.say(&join.name, format!("{join:?}"));
        let claim = Claim::new(join.id, join.name.clone(), join.kind, join.weight, join.capacity);
        let before = boot_clock().now();
        let reply = self.crew.caller(join.id.session).session.join(&claim, join.patience).await;
        if let Ok(Place::Held { until, .. } | Place::Waiting { until, .. }) = reply {
            assert!(before + TTL <= until && until <= boot_clock().now() + TTL);
        }
        let name = join.name.clone();
        let events = self.world.step(Op::Join(join));
        match (&events[0], reply) {
            (Event::Held { id, .. }, Ok(Place::Held { grant, .. })) => {
                assert_eq!(grant.capacity, self.world.line(&name).unwrap().capacity);
                self.granted(&name, *id, grant.token);
            }
            (Event::Waiting { .. }, Ok(Place::Waiting { look_in, .. })) => {
                // Each time a claim moves between fields, its lifetime is rounded up to the next millisecond.
                assert!(look_in <= TTL + Duration::from_millis(10), "{look_in:?}");
            }
            (Event::Refused { why: Refusal::Busy, .. }, Ok(Place::Refused))
            | (Event::Refused { why: Refusal::Void, .. }, Ok(Place::Gone)) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events[1..]);
    }

    async fn leave_one(&mut self, by: SessionId, name: &Name, id: ClaimId, how: Leave) {
        self.say(name, format!("{by} has {id} leave {name:?}, {how:?}"));
        let reply = self.crew.caller(by).session.leave(name, id, how).await.unwrap();
        let events = self.world.step(Op::Leave { name: name.clone(), id, how });
        let Event::Left { left, .. } = events[0] else { panic!("{events:?}") };
        self.tokens.remove(&id);
        let is_unmet = self.unmet.iter().any(|(_, unmet, _)| *unmet == id);
        assert!(reply == left || is_unmet && reply == Left::Waiting, "{left:?}, but {reply:?}");
        if by != id.session && left != Left::Absent {
            self.expected.push((id.session, Expected::Gone(id)));
        }
        self.expect(&events[1..]);
    }

    async fn lighten_one(&mut self, name: &Name, id: ClaimId, to: Weight) {
        self.say(name, format!("{id} on {name:?} becomes {to}"));
        let claim = Claim::new(id, name.clone(), Kind::Semaphore, to, to);
        let reply = self.crew.caller(id.session).session.lighten(&claim, to).await;
        let line = self.world.line(name);
        if line.is_some_and(|line| line.waiting().any(|claim| claim.id == id)) {
            assert_eq!(reply.unwrap_err().kind(), ErrorKind::Conflict);
            return;
        }
        let events = self.world.step(Op::Lighten { name: name.clone(), id, weight: to });
        match (&events[0], reply) {
            (Event::Lightened { .. }, Ok(())) => {}
            (Event::Absent { .. }, Err(error)) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events[1..]);
    }

    async fn resize_one(&mut self, name: &Name, from: Weight, to: Weight) {
        let by = self.wishes.session(&self.world);
        self.say(name, format!("{by} resizes {name:?} from {from} to {to}"));
        if self.unmet.iter().any(|(place, _, weight)| place == name && *weight > to) {
            return;
        }
        let reply = self.crew.caller(by).session.resize(name, from, to).await;
        let events = self.world.step(Op::Resize { name: name.clone(), from, to });
        match (&events[0], reply) {
            (Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. }, Ok(())) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.expect(&events[1..]);
    }

    /// One client looks for these claims of its own.
    async fn look_at(&mut self, name: &Name, session: SessionId, claims: &[ClaimId]) {
        self.say(name, format!("{session} looks at {name:?} for {claims:?}"));
        let sight = self.crew.caller(session).session.look(name, claims).await.unwrap();
        assert!(sight.look_in <= TTL + Duration::from_millis(1), "{sight:?}");
        let (mut held, mut gone) = (Vec::new(), Vec::new());
        for id in claims {
            match self.world.step(Op::Look { name: name.clone(), id: *id })[0] {
                Event::Held { .. } => held.push(*id),
                Event::Waiting { .. } => {}
                _ => gone.push(*id),
            }
        }
        assert_eq!(sight.held.iter().map(|(id, _)| *id).collect::<Vec<_>>(), held);
        assert_eq!(sight.gone, gone);
        for (id, grant) in sight.held {
            assert_eq!(grant.capacity, self.world.line(name).unwrap().capacity);
            self.granted(name, id, grant.token);
        }
    }

    /// One client renews the claims that it believes it has; it may be wrong.
    async fn renew_one(&mut self, session: SessionId) {
        let [mut gone, mut waiting] = [Vec::new(), Vec::new()];
        let (mut standing, mut strays) = (Vec::new(), Vec::new());
        for name in self.wishes.names().to_vec() {
            let Some(line) = self.world.line(&name) else { continue };
            let mine = line.claims.iter().filter(|claim| claim.id.session == session);
            let mut named = Vec::new();
            for claim in mine {
                if !self.wishes.dice().one_in(6) {
                    named.push(claim.id);
                    waiting.extend(claim.token.is_none().then_some(claim.id));
                } else if claim.token.is_some() {
                    strays.push((name.clone(), claim.id));
                }
            }
            if self.wishes.dice().one_in(6) {
                let id = ClaimId { session, number: u64::from(u32::MAX) + self.wishes.number() };
                named.push(id);
                gone.push(id);
            }
            standing.push((name, named));
        }
        self.log.push(format!("{session} renews {standing:?}"));
        self.touched.extend(standing.iter().map(|(name, _)| name.clone()));
        let before = boot_clock().now();
        let mut renewal = self.crew.caller(session).session.renew(Shard(0), &standing).await.unwrap();
        if standing.is_empty() {
            assert_eq!(renewal.until, Moment::START, "the server keeps nothing of a session without claims");
        } else {
            assert!(before + TTL <= renewal.until && renewal.until <= boot_clock().now() + TTL);
        }
        renewal.strays.sort();
        strays.sort();
        renewal.waiting.sort();
        waiting.sort();
        assert_eq!((renewal.gone, renewal.unsure), (gone, vec![]));
        assert_eq!((renewal.waiting, renewal.strays), (waiting, strays));
    }

    /// Sets the newest token ahead of the server's clock, as if the clock had been set back.
    async fn outrun(&mut self) {
        let name = self.wishes.name();
        self.say(&name, format!("{name:?} outruns the clock"));
        let last: Option<String> = self.crew.script(OUTRUN, &name, &[]).await;
        if let Some(last) = last {
            self.newest.insert(name, Token::from_order(last.parse().unwrap()).unwrap());
        }
    }

    /// Lets a client die. The next request on each name has to notice it.
    async fn die(&mut self) {
        if self.world.sessions().count() < 2 {
            return;
        }
        let dying = self.wishes.session(&self.world);
        self.log.push(format!("{dying} dies"));
        let theirs = |name: &Name, is_held: bool| {
            let claims = self.world.line(name).map(|line| &line.claims[..]).unwrap_or_default();
            let theirs = |claim: &&tidelock_model::Claim| {
                claim.id.session == dying && claim.token.is_some() == is_held
            };
            claims.iter().filter(theirs).map(|claim| (claim.id, claim.weight)).collect::<Vec<_>>()
        };
        let had: Vec<_> = self
            .wishes
            .names()
            .iter()
            .map(|name| (name.clone(), theirs(name, true), theirs(name, false)))
            .filter(|(_, held, waiting)| held.len() + waiting.len() > 0)
            .collect();
        let events = self.world.step(Op::Close(dying));
        self.expect(&events);
        for (name, held, waiting) in had {
            self.touched.insert(name.clone());
            let () = self.crew.script(EXPIRE, &name, &[dying.to_string()]).await;
            self.unmet.extend(waiting.iter().map(|(id, weight)| (name.clone(), *id, *weight)));
            let is_first = self.wishes.dice().one_in(2);
            if !is_first || !waiting.is_empty() {
                self.meet(&name).await;
            }
            if waiting.is_empty() {
                let held: Vec<_> = held.into_iter().map(|(id, _)| id).collect();
                let standing = [(name.clone(), held.clone())];
                let renewal = self.crew.caller(dying).session.renew(Shard(0), &standing).await.unwrap();
                assert_eq!(renewal.gone, held, "the dead stay dead");
            }
        }
        self.compare().await;
    }

    async fn meet(&mut self, name: &Name) {
        match self.wishes.dice().below(3) {
            0 => self.join_new(name).await,
            1 => {
                let id = self.wishes.fresh(&self.world, name);
                self.look_at(name, id.session, &[id]).await;
            }
            _ => {
                let by = self.wishes.session(&self.world);
                let capacity = self.world.line(name).map_or(Weight::ONE, |line| line.capacity);
                // Refused or not, the script has removed the dead.
                let reply = self.crew.caller(by).session.resize(name, capacity, capacity).await;
                let is_other = self.world.line(name).is_some_and(|line| line.kind != Kind::Semaphore);
                assert_eq!(
                    reply.err().map(|error| error.kind()),
                    is_other.then_some(ErrorKind::KindMismatch)
                );
            }
        }
    }

    /// Lets every claim leave. Then only the newest token and the void claims are left, for a while.
    async fn end(mut self) {
        let names = self.wishes.names().to_vec();
        for name in &names {
            while let Some(line) = self.world.line(name) {
                let id = self.wishes.stander(line);
                self.leave_one(id.session, name, id, Leave::Done).await;
            }
        }
        let everyone: Vec<_> = self.crew.callers.iter().map(|caller| caller.id).collect();
        let expected = std::mem::take(&mut self.expected);
        self.touched.insert(names[0].clone());
        self.compare_all(&everyone, &expected).await;
        for name in &names {
            let (held, wait, left): Peek = self.crew.script(PEEK, name, &["0".into()]).await;
            let what = "an idle name remembers only its token and void claims";
            assert!(
                held.iter().all(|(field, value)| match field.as_str() {
                    "one" => holder(value).is_none(),
                    field => ["last", "void"].contains(&field),
                }),
                "{what}: {held:?}"
            );
            let has_line = left[1] != -2;
            assert!(wait.is_empty() && has_line == held.contains_key("void"), "{what}: {wait:?}, {left:?}");
            let () = self.crew.script("redis.call('DEL', unpack(KEYS))", name, &[]).await;
        }
    }

    // Comparisons.

    fn expect(&mut self, events: &[Event<Name>]) {
        for event in events {
            if let Event::Held { name, id, .. } = event {
                let capacity = self.world.line(name).unwrap().capacity;
                self.expected.push((id.session, Expected::Held(*id, capacity)));
            }
        }
    }

    fn granted(&mut self, name: &Name, id: ClaimId, token: Token) {
        self.grants.push((token, name.clone(), id));
    }

    /// The token of a claim stays the same, and is newer than all earlier tokens on its name. (For grants that came
    /// together, the order is compared with the line.)
    fn compare_tokens(&mut self) {
        self.grants.sort();
        for (token, name, id) in std::mem::take(&mut self.grants) {
            if self.tokens.insert(id, token) != Some(token) {
                let before = self.newest.insert(name.clone(), token);
                assert!(
                    before.is_none_or(|before| before < token),
                    "the token of {id} on {name:?} did not grow"
                );
                assert_eq!(token.get() % 32, 0, "the low bits are the process's own");
            }
        }
    }

    /// Waits for the clients that must get a signal. A client that got one without a reason is found at its next
    /// signal, or at the end, when all clients are compared.
    async fn compare(&mut self) {
        let expected = std::mem::take(&mut self.expected);
        let listening = |caller: &&Caller| expected.iter().any(|(session, _)| *session == caller.id);
        let listeners: Vec<_> = self.crew.callers.iter().filter(listening).map(|caller| caller.id).collect();
        self.compare_all(&listeners, &expected).await;
    }

    async fn compare_all(&mut self, listeners: &[SessionId], expected: &[(SessionId, Expected)]) {
        let last = u64::MAX - self.wishes.number();
        let mut arguments = vec![last.to_string()];
        arguments.extend(listeners.iter().map(|id| format!("{}{id}", self.crew.channel())));
        let is_thorough = self.wishes.dice().one_in(3); // wrong counts stay wrong, so a later check finds them
        let mut seen = Vec::new();
        for name in std::mem::take(&mut self.touched) {
            let arguments = if seen.is_empty() { &arguments[..] } else { &arguments[..1] };
            let by = self.wishes.dice().pick(&self.crew.callers);
            let books = async {
                if arguments.len() > 1 || is_thorough {
                    Some(self.crew.script::<Peek>(PEEK, &name, arguments).await)
                } else {
                    None
                }
            };
            let (peek, line) = tokio::join!(books, by.session.line(&name));
            seen.push((name, peek, line.unwrap()));
        }
        for listener in listeners {
            self.compare_told(*listener, last, expected).await;
        }
        self.compare_tokens();
        for (name, peek, line) in seen {
            peek.iter().for_each(|peek| self.compare_books(&name, peek));
            self.compare_line(&name, &line);
        }
    }

    /// One client got the signals that it had to get, in any order, because its own grants come with replies.
    async fn compare_told(&mut self, listener: SessionId, last: u64, expected: &[(SessionId, Expected)]) {
        let heard = self.crew.caller(listener).heard.clone();
        let told = heard.up_to(|told| matches!(told, Told::Gone(id) if id.number == last)).await;
        if self.world.session(listener).is_none() {
            return;
        }
        let mut was_told = Vec::new();
        for told in told {
            match told {
                Told::Held(id, grant) => {
                    let name = self.wishes.name_of(id).unwrap().clone();
                    self.granted(&name, id, grant.token);
                    was_told.push(Expected::Held(id, grant.capacity));
                }
                Told::Gone(id) => was_told.push(Expected::Gone(id)),
                other => panic!("{listener} was told {other:?}"),
            }
        }
        let mine = expected.iter().filter(|(session, _)| *session == listener);
        let mut wanted: Vec<_> = mine.map(|(_, what)| *what).collect();
        wanted.sort();
        was_told.sort();
        assert_eq!(was_told, wanted, "{listener} was told");
    }

    fn compare_line(&self, name: &Name, ours: &Line) {
        let theirs = self.world.line(name);
        assert_eq!(
            (ours.kind, ours.capacity),
            (theirs.map(|line| line.kind), theirs.map(|line| line.capacity))
        );
        let theirs = theirs.map(|line| &line.claims[..]).unwrap_or_default();
        let shown: Vec<_> = ours.claims.iter().map(|claim| (claim.id, claim.weight, claim.token)).collect();
        let right: Vec<_> = theirs
            .iter()
            .map(|claim| {
                (claim.id, claim.weight, claim.token.and_then(|_| self.tokens.get(&claim.id).copied()))
            })
            .collect();
        assert_eq!(shown, right, "the line of {name:?}");
        assert!(theirs.iter().all(|claim| claim.token.is_some() == self.tokens.contains_key(&claim.id)));
        assert!(ours.claims.iter().all(|claim| claim.label == self.crew.label && claim.since.is_some()));
    }

    fn compare_books(&self, name: &Name, (held, wait, left): &Peek) {
        assert!(left.iter().all(|left| *left != -1), "{name:?} has a key without an expiry: {left:?}");
        let claims = self.world.line(name).map(|line| &line.claims[..]).unwrap_or_default();
        let mut counts = BTreeMap::<SessionId, (u64, u64)>::new();
        for claim in claims.iter().filter(|claim| claim.token.is_some()) {
            let count = counts.entry(claim.id.session).or_default();
            *count = (count.0 + 1, count.1 + claim.id.number);
        }
        assert_eq!(counts, lives(held), "the counts on {name:?}");
        for claim in claims.iter().filter(|claim| claim.token.is_none()) {
            let is_here = held.get("one").is_some_and(|one| one.contains(&format!(" m {} ", claim.id)));
            assert!(
                is_here || wait.contains_key(&format!("s:{}", claim.id.session)),
                "there is no lifetime for {claim:?}"
            );
        }
        assert!(
            !claims.is_empty() || wait.is_empty() || self.unmet.iter().any(|(on, ..)| on == name),
            "{wait:?}"
        );
        let used: u64 = claims
            .iter()
            .filter(|claim| claim.token.is_some())
            .map(|claim| u64::from(claim.weight.get()))
            .sum();
        let of_one =
            |one: &String| holder(one).map(|words| if words[3] == "m" { "1" } else { words[6] }.to_owned());
        let of_line = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
        let written = held.get("one").and_then(of_one).or_else(|| held.get("line").map(of_line));
        assert_eq!(written.map_or(0, |used| used.parse().unwrap()), used, "what is used of {name:?}");
        assert!(
            !held.contains_key("one") || held.len() == 1,
            "{name:?} is stored in more than one form: {held:?}"
        );
    }
}

/// The holder in the field `one`.
fn holder(one: &str) -> Option<Vec<&str>> {
    let head = one.split(['\n', '\t']).next().unwrap();
    (head.len() > 26).then(|| head.split(' ').skip(2).collect())
}

/// How many claims each session holds, and the sum of their numbers, as stored.
fn lives(book: &BTreeMap<String, String>) -> BTreeMap<SessionId, (u64, u64)> {
    if let Some(words) = book.get("one").and_then(|one| holder(one)) {
        let (session, number) = words[4].split_once('-').unwrap();
        let session = SessionId::from_bits(u64::from_str_radix(session, 16).unwrap());
        return BTreeMap::from([(session, (1, number.parse().unwrap()))]);
    }
    let life = |(field, value): (&String, &String)| {
        let session = u64::from_str_radix(field.strip_prefix("s:")?, 16).unwrap();
        let mut words = value.split(' ').map(str::parse::<u64>);
        let mut number = || words.next().unwrap().unwrap();
        let (_, _, count, sum) = (number(), number(), number(), number());
        Some((SessionId::from_bits(session), (count, sum)))
    };
    book.iter().filter_map(life).collect()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_scripts_do_what_the_rule_does() {
    let store = Store::open(&site::url()).unwrap();
    if let Ok(seed) = std::env::var("TIDELOCK_MODEL_SEED") {
        let crew = Crew::open(&store, 0).await;
        Pair::new(&crew, &mut 0, seed.parse().unwrap()).run().await;
        return;
    }
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let first = u64::try_from(since.as_micros()).unwrap() << 16;
    println!("{SEQUENCES} sequences, of the seeds from {first} on");
    let next = Arc::new(AtomicU64::new(first));
    let mut crews = JoinSet::new();
    for which in 1..=AT_ONCE {
        let (store, next) = (store.clone(), next.clone());
        crews.spawn(async move {
            let (crew, mut last_number) = (Crew::open(&store, which).await, 0);
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + SEQUENCES {
                    return;
                }
                Pair::new(&crew, &mut last_number, seed).run().await;
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
