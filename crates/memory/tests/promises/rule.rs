//! The store against the rule: after every operation of a long random run, its answers, its signals and its lines
//! must match those of `tidelock_model::World`. Tokens are compared by order, name by name.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidelock_memory::backend::{Leave, Left, Patience, Place, Session, Shard};
use tidelock_memory::{ClaimId, Clock, ErrorKind, Kind, Name, Options, SessionId, Store, Token, Weight};
use tidelock_model::{Event, Join, Op, Refusal, World};

use crate::client::{Client, Told, name, now, weight};

const TTL: u64 = 10_000; // ms
const SESSIONS: u64 = 4;

/// One step, with small numbers in place of ids and names.
#[derive(Clone, Debug)]
enum Step {
    Open { session: u64 },
    Renew { session: u64 },
    Close { session: u64 },
    Pass { millis: u64 },
    Join { session: u64, number: u64, weight: u32, capacity: u32, patience: Patience, odd_kind: bool },
    Look { session: u64, number: u64 },
    Leave { by: u64, session: u64, number: u64, how: Leave },
    Lighten { session: u64, number: u64, weight: u32 },
    Resize { session: u64, name: u64, from: u32, to: u32 },
}

/// The number of a claim decides where it stands: in a mutex, a read-write lock or a semaphore.
fn kind(number: u64) -> Kind {
    [Kind::Mutex, Kind::RwLock, Kind::Semaphore][usize::try_from(number % 3).unwrap()]
}

fn name_of(number: u64) -> Name {
    name(&format!("{} {}", kind(number), number % 3))
}

fn weights(number: u64, n: u32, capacity: u32) -> (Weight, Weight) {
    match kind(number) {
        Kind::Mutex => (Weight::ONE, Weight::ONE),
        Kind::RwLock => (if n.is_multiple_of(2) { Weight::MAX } else { Weight::ONE }, Weight::MAX),
        _ => (weight(n), weight(capacity)),
    }
}

fn id(session: u64, number: u64) -> ClaimId {
    ClaimId { session: SessionId::from_bits(session), number }
}

fn step() -> impl Strategy<Value = Step> {
    let session = 1..=SESSIONS;
    let number = 1..=9_u64;
    let patience = prop_oneof![1 => Just(Patience::Now), 4 => Just(Patience::Wait)];
    let how = prop_oneof![3 => Just(Leave::Done), 1 => Just(Leave::Void)];
    let join = (session.clone(), number.clone(), 1..=4_u32, 3..=4_u32, patience, prop::bool::weighted(0.02));
    let leave = (prop::option::weighted(0.2, session.clone()), session.clone(), number.clone(), how);
    prop_oneof![
        2 => session.clone().prop_map(|session| Step::Open { session }),
        4 => session.clone().prop_map(|session| Step::Renew { session }),
        1 => session.clone().prop_map(|session| Step::Close { session }),
        4 => (0..TTL / 2).prop_map(|millis| Step::Pass { millis }),
        30 => join.prop_map(|(session, number, weight, capacity, patience, odd_kind)| {
            Step::Join { session, number, weight, capacity, patience, odd_kind }
        }),
        4 => (session.clone(), number.clone()).prop_map(|(session, number)| Step::Look { session, number }),
        20 => leave.prop_map(|(by, session, number, how)| {
            Step::Leave { by: by.unwrap_or(session), session, number, how }
        }),
        4 => (session.clone(), number, 1..=3_u32).prop_map(|(session, number, weight)| {
            Step::Lighten { session, number, weight }
        }),
        3 => (session, 0..3_u64, 1..=5_u32, 1..=5_u32).prop_map(|(session, name, from, to)| {
            Step::Resize { session, name, from, to }
        }),
    ]
}

/// The store and the rule, side by side.
struct Pair {
    world: World<Name>,
    store: Store,
    clock: Clock,
    clients: BTreeMap<u64, Client>,
    /// A client that only looks at the lines.
    observer: Client,
    /// When each void leave was made: the store remembers it for a ttl only.
    void_at: BTreeMap<ClaimId, u64>,
    newest: BTreeMap<Name, Token>,
    tokens: BTreeMap<ClaimId, (Token, Token)>,
}

impl Pair {
    fn new() -> Self {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let observer = Client::with(&store, 99, &Options::new().ttl(Duration::from_secs(24 * 60 * 60)));
        let mut pair = Self {
            world: World::new(),
            store,
            clock,
            clients: BTreeMap::new(),
            observer,
            void_at: BTreeMap::new(),
            newest: BTreeMap::new(),
            tokens: BTreeMap::new(),
        };
        (1..=SESSIONS).for_each(|session| pair.apply(&Step::Open { session }));
        pair
    }

    fn apply(&mut self, step: &Step) {
        if self.asks_what_is_forgotten(step) {
            return;
        }
        match step.clone() {
            Step::Open { session } => self.open(session),
            Step::Pass { millis } => self.pass(millis),
            Step::Renew { session } => self.renew(session),
            Step::Close { session } => self.close(session),
            Step::Join { session, number, weight, capacity, patience, odd_kind } => {
                let kind = if odd_kind { kind(number + 1) } else { kind(number) };
                let (weight, capacity) = weights(number, weight, capacity);
                self.join(Join {
                    name: name_of(number),
                    id: id(session, number),
                    kind,
                    weight,
                    capacity,
                    patience,
                });
            }
            Step::Look { session, number } => self.look(id(session, number)),
            Step::Leave { by, session, number, how } => self.leave(by, id(session, number), how),
            Step::Lighten { session, number, weight } => self.lighten(id(session, number), weight),
            Step::Resize { session, name, from, to } => self.resize(session, name, weight(from), weight(to)),
        }
        self.compare_lines();
    }

    /// Whether this is a join whose void leave the store has forgotten: the model remembers it while the session
    /// lives.
    fn asks_what_is_forgotten(&self, step: &Step) -> bool {
        let Step::Join { session, number, .. } = step else {
            return false;
        };
        let void_at = self.void_at.get(&id(*session, *number));
        void_at.is_some_and(|at| self.world.now() >= at + TTL)
    }

    fn session(&self, session: SessionId) -> &dyn Session {
        &*self.clients[&session.get()].session
    }

    fn is_over(&self, session: u64) -> bool {
        self.world.session(SessionId::from_bits(session)).is_none()
    }

    fn open(&mut self, session: u64) {
        if self.is_over(session) {
            self.void_at.retain(|id, _| id.session.get() != session);
            let options = Options::new().ttl(Duration::from_millis(TTL));
            self.clients.insert(session, Client::with(&self.store, session, &options));
            self.world.step(Op::Open { session: SessionId::from_bits(session), ttl: TTL });
        }
    }

    fn pass(&mut self, millis: u64) {
        let events = self.world.step(Op::Pass(millis));
        self.clock.advance(Duration::from_millis(millis));
        now(self.observer.session.names("", None)).unwrap(); // any request ends the leases that are due
        self.compare_told(&events);
    }

    fn renew(&mut self, session: u64) {
        let id = SessionId::from_bits(session);
        let events = self.world.step(Op::Renew(id));
        let reply = now(self.session(id).renew(Shard(0), &[]));
        match (&events[0], reply) {
            (Event::Lives { until, .. }, Ok(renewal)) => {
                let left = Duration::from_millis(until - self.world.now());
                assert_eq!(renewal.until, self.clock.now() + left);
                let mine = |(name, line): (&Name, &tidelock_model::Line)| {
                    let claims = line.claims.iter().filter(|claim| claim.id.session == id);
                    claims.map(|claim| (name.clone(), claim.id)).collect::<Vec<_>>()
                };
                let mut strays: Vec<_> = self.world.lines().flat_map(mine).collect();
                let mut found = renewal.strays;
                strays.sort();
                found.sort();
                assert_eq!(found, strays);
            }
            (Event::Over { .. }, Err(error)) => assert_eq!(error.kind(), ErrorKind::Lost),
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
    }

    fn close(&mut self, session: u64) {
        let id = SessionId::from_bits(session);
        let events = self.world.step(Op::Close(id));
        now(self.session(id).close()).unwrap();
        // A client that closes is not told.
        let others: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, Event::Over { .. })).collect();
        self.compare_told(&others);
    }

    fn join(&mut self, join: Join<Name>) {
        let mut claim = self.clients[&join.id.session.get()].mutex(join.id.number, &join.name);
        (claim.kind, claim.weight, claim.capacity) = (join.kind, join.weight, join.capacity);
        let reply = now(self.session(join.id.session).join(&claim, join.patience));
        let events = self.world.step(Op::Join(join));
        match (&events[0], reply) {
            (Event::Held { id, name, token }, Ok(Place::Held { grant, .. })) => {
                let capacity = self.world.line(name).unwrap().capacity;
                assert_eq!(grant.capacity, capacity);
                self.granted(name, *id, *token, grant.token);
            }
            (Event::Waiting { .. }, Ok(Place::Waiting { .. }))
            | (Event::Refused { why: Refusal::Busy, .. }, Ok(Place::Refused))
            | (Event::Refused { why: Refusal::Void, .. }, Ok(Place::Gone)) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.compare_told(&events[1..]);
    }

    fn look(&mut self, id: ClaimId) {
        if self.is_over(id.session.get()) {
            return;
        }
        let name = name_of(id.number);
        let sight = now(self.session(id.session).look(&name, &[id])).unwrap();
        match &self.world.step(Op::Look { name: name.clone(), id })[0] {
            Event::Held { token, .. } => {
                let [(held, grant)] = sight.held[..] else { panic!("{id:?} is held: {sight:?}") };
                assert_eq!(held, id);
                self.granted(&name, id, *token, grant.token);
            }
            Event::Waiting { .. } => assert!(sight.held.is_empty() && sight.gone.is_empty(), "{sight:?}"),
            _ => assert_eq!((sight.held.len(), sight.gone), (0, vec![id])),
        }
    }

    fn leave(&mut self, by: u64, id: ClaimId, how: Leave) {
        let reply = now(self.session(SessionId::from_bits(by)).leave(&name_of(id.number), id, how));
        if self.is_over(by) {
            assert_eq!(reply.unwrap_err().kind(), ErrorKind::Lost);
            return;
        }
        if how == Leave::Void && !self.is_over(id.session.get()) {
            self.void_at.entry(id).or_insert(self.world.now());
        }
        let events = self.world.step(Op::Leave { name: name_of(id.number), id, how });
        let Event::Left { left, .. } = events[0] else { panic!("{events:?}") };
        assert_eq!(reply.unwrap(), left);
        if by != id.session.get() && left != Left::Absent {
            self.compare_told(&events);
        } else {
            self.compare_told(&events[1..]);
        }
    }

    fn lighten(&mut self, id: ClaimId, to: u32) {
        let name = name_of(id.number);
        let claim = self.clients[&id.session.get()].mutex(id.number, &name);
        let reply = now(self.session(id.session).lighten(&claim, weight(to)));
        let over = self.is_over(id.session.get());
        let events = self.world.step(Op::Lighten { name, id, weight: weight(to) });
        match (&events[0], reply) {
            (Event::Lightened { .. }, Ok(())) => {}
            (Event::Absent { .. }, Err(error)) => {
                assert_eq!(error.kind(), if over { ErrorKind::Lost } else { ErrorKind::Conflict });
            }
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.compare_told(&events[1..]);
    }

    fn resize(&mut self, session: u64, number: u64, from: Weight, to: Weight) {
        if self.is_over(session) {
            return;
        }
        let name = name_of(number);
        let reply = now(self.session(SessionId::from_bits(session)).resize(&name, from, to));
        let events = self.world.step(Op::Resize { name, from, to });
        match (&events[0], reply) {
            (Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. }, Ok(())) => {}
            (Event::Refused { why, .. }, Err(error)) => {
                assert_eq!(Some(error.kind()), ErrorKind::of_refusal(*why), "{error}");
            }
            (event, reply) => panic!("{event:?}, but {reply:?}"),
        }
        self.compare_told(&events[1..]);
    }

    /// Records a grant that both report: it must be the same as before, or newer than all earlier grants of this
    /// name.
    fn granted(&mut self, name: &Name, id: ClaimId, theirs: Token, ours: Token) {
        if self.tokens.insert(id, (theirs, ours)) != Some((theirs, ours)) {
            let before = self.newest.insert(name.clone(), ours);
            assert!(
                before.is_none_or(|before| before < ours),
                "the token of {id:?} on {name:?} did not grow"
            );
        }
    }

    /// Clients were told the operation's consequences and nothing else, in the same order for each line.
    fn compare_told(&mut self, events: &[Event<Name>]) {
        let mut told: Vec<Told> = self.clients.values().flat_map(Client::told).collect();
        let mut hear = |what: &dyn Fn(&Told) -> bool, event: &Event<Name>| {
            let at = told.iter().position(what).unwrap_or_else(|| panic!("{event:?} was not told: {told:?}"));
            told.remove(at)
        };
        let ended = |session| events.contains(&Event::Over { session });
        for event in events {
            match event {
                Event::Held { name, id, token } => {
                    let Told::Held(_, ours) =
                        hear(&|told| matches!(told, Told::Held(held, _) if held == id), event)
                    else {
                        unreachable!()
                    };
                    self.granted(name, *id, *token, ours);
                }
                Event::Over { .. } => drop(hear(&|told| *told == Told::Over, event)),
                Event::Left { id, .. } if !ended(id.session) && !self.is_over(id.session.get()) => {
                    hear(&|told| *told == Told::Gone(*id), event);
                }
                _ => {}
            }
        }
        assert_eq!(told, [], "told without a reason");
    }

    fn compare_lines(&mut self) {
        let names = now(self.observer.session.names("", None)).unwrap();
        assert!(names.iter().eq(self.world.lines().map(|(name, _)| name)), "{names:?}");
        for name in names {
            let ours = now(self.observer.session.line(&name)).unwrap();
            let theirs = self.world.line(&name).unwrap();
            assert_eq!((ours.kind, ours.capacity), (Some(theirs.kind), Some(theirs.capacity)));
            assert_eq!(ours.claims.len(), theirs.claims.len());
            for (ours, theirs) in ours.claims.iter().zip(&theirs.claims) {
                assert_eq!((ours.id, ours.weight), (theirs.id, theirs.weight));
                let known = self.tokens.get(&ours.id).filter(|_| ours.token.is_some());
                assert_eq!(ours.token.zip(theirs.token), known.map(|(theirs, ours)| (*ours, *theirs)));
                assert_eq!(ours.is_held(), theirs.token.is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_does_what_the_rule_does(steps in prop::collection::vec(step(), 1..400)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.apply(step);
        }
    }
}
