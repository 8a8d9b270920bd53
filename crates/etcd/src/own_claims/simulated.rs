//! Attack: clients against a simulated line, with every answer, event and timer in any order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use etcd_client::proto::{PbEvent, PbKeyValue};
use etcd_client::{Event, KeyValue};
use tidelock_core::backend::{Claim, Moment};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token, Weight};
use tidelock_model::{Place, place};

use super::*;
use crate::keys::Keys;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

type Lines = BTreeMap<String, (i64, i64)>;

struct Server {
    rev: i64,
    keys: Lines,
    voids: HashSet<ClaimId>,
    log: Vec<(i64, Event)>,
    past: VecDeque<(i64, Lines)>,
    ever_held: HashSet<ClaimId>,
    compacted: i64,
    names: Keys,
    name: Name,
}

fn key_value(key: &str, create: i64, modified: i64) -> KeyValue {
    KeyValue(PbKeyValue {
        key: key.as_bytes().to_vec(),
        create_revision: create,
        mod_revision: modified,
        version: 1,
        value: Vec::new(),
        lease: 0,
    })
}

impl Server {
    fn skip(&self) -> usize {
        self.names.line(&self.name).len()
    }
    fn view_of(&self, keys: &Lines, rev: i64) -> LineView {
        let all: Vec<KeyValue> = keys.iter().map(|(key, (c, m))| key_value(key, *c, *m)).collect();
        LineView::of(&all, self.skip(), rev)
    }
    fn view(&self) -> LineView {
        self.view_of(&self.keys, self.rev)
    }
    fn commit(&mut self, puts: Vec<String>, deletes: Vec<String>) -> Vec<Event> {
        if puts.is_empty() && deletes.is_empty() {
            return Vec::new();
        }
        self.rev += 1;
        let mut events = Vec::new();
        for key in deletes {
            self.keys.remove(&key);
            events.push(Event(PbEvent { r#type: 1, kv: Some(key_value(&key, 0, self.rev).0), prev_kv: None }));
        }
        for key in puts {
            self.keys.insert(key.clone(), (self.rev, self.rev));
            events.push(Event(PbEvent {
                r#type: 0,
                kv: Some(key_value(&key, self.rev, self.rev).0),
                prev_kv: None,
            }));
        }
        self.log.extend(events.iter().map(|event| (self.rev, event.clone())));
        self.past.push_back((self.rev, self.keys.clone()));
        if self.past.len() > 6 {
            self.past.pop_front();
        }
        let shown = self.view().shown(|_, _| None);
        let held: Vec<ClaimId> = shown.held().map(|claim| claim.id).collect();
        self.ever_held.extend(held);
        events
    }
    fn prefix(&self, id: ClaimId) -> String {
        self.names.claim(&self.name, id)
    }
    fn keys_of(&self, id: ClaimId) -> Vec<String> {
        let prefix = self.prefix(id);
        self.keys.keys().filter(|key| key.starts_with(&prefix)).cloned().collect()
    }
    fn order(&self, id: ClaimId) -> Option<u64> {
        self.view().place(id)
    }
}

enum Response {
    Created { from: i64, now: i64 },
    Canceled,
    Events(Vec<Event>),
}

struct Watcher {
    prefix: String,
    is_open: bool,
    queue: VecDeque<Response>,
}

#[derive(Clone)]
enum Task {
    SendJoin(u64),
    JoinArrives { number: u64, is_read: bool },
    JoinAnswer { number: u64, done: Option<i64>, is_void: bool, view: Option<LineView>, rev: i64 },
    JoinLost(u64),
    JoinAgain(u64),
    Settle { number: u64, rev: i64, view: Option<LineView>, again: bool },
    SendLeave { number: u64, void: bool },
    LeaveArrives { number: u64, void: bool, next: Option<ClaimId> },
    LeaveAnswer { number: u64, rev: i64, next: Option<(ClaimId, Option<u64>)> },
    LeaveAgain(u64),
    Read,
    ReadAnswer(Option<LineView>),
    Check { claims: Vec<ClaimId>, since: i64 },
    CheckAnswer(Option<(i64, Vec<(ClaimId, Option<(u64, Weight)>)>)>),
    Gap(i64),
    Look,
    LookAnswer(LineView),
    Hint { number: u64, rev: i64 },
    Sweep,
    Lightened { number: u64, rev: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State2 {
    Joining,
    Waiting,
    Held,
    Leaving,
    Over,
}

struct Mine {
    claim: Claim,
    state: State2,
    unanswered: bool,
    removed: bool,
}

struct Client {
    own: OwnClaims,
    session: SessionId,
    mine: BTreeMap<u64, Mine>,
    last: u64,
    tasks: Vec<Task>,
    commands: VecDeque<Command>,
    starting: VecDeque<Wanted>,
    stopping: VecDeque<i64>,
    begun: HashSet<i64>,
    watchers: HashMap<i64, Watcher>,
}

struct Sim {
    dice: Dice,
    server: Server,
    clients: Vec<Client>,
    kind: Kind,
    size: u32,
    log: Vec<String>,
    faults: bool,
}

impl Drop for Sim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.log.len().saturating_sub(std::env::var("SIM_LOG").ok().and_then(|n| n.parse().ok()).unwrap_or(160));
            for line in &self.log[from..] {
                eprintln!("  {line}");
            }
            if std::env::var_os("SIM_STATE").is_none() { return; }
            eprintln!("STORE {:?} {:?}", self.server.rev, self.server.view());
            for client in &self.clients {
                let state = client.own.0.lock().unwrap_or_else(|e| e.into_inner());
                eprintln!("STATE {} {:?}\n   CLAIMS {:?}", client.session.get(), state.lines, state.claims);
            }
        }
    }
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            dice.next();
        }
        let name = Name::new("n").unwrap();
        let kind = [Kind::Mutex, Kind::RwLock, Kind::RwLock, Kind::Semaphore][dice.below(4)];
        let count = if dice.one_in(4) { 14 + dice.below(6) } else { 1 + dice.below(5) };
        let client = |of: usize| Client {
            own: OwnClaims::of(SessionId::from_bits(of as u64 + 1)),
            session: SessionId::from_bits(of as u64 + 1),
            mine: BTreeMap::new(),
            last: 0,
            tasks: Vec::new(),
            commands: VecDeque::new(),
            starting: VecDeque::new(),
            stopping: VecDeque::new(),
            begun: HashSet::new(),
            watchers: HashMap::new(),
        };
        let faults = dice.one_in(2);
        Self {
            server: Server {
                rev: 1,
                keys: BTreeMap::new(),
                voids: HashSet::new(),
                log: Vec::new(),
                past: VecDeque::new(),
                ever_held: HashSet::new(),
                compacted: 0,
                names: Keys::of("", "t"),
                name,
            },
            clients: (0..count).map(client).collect(),
            kind,
            size: 1 + dice.below(4) as u32,
            dice,
            log: Vec::new(),
            faults,
        }
    }

    fn say(&mut self, text: String) {
        self.log.push(format!("r{} {text}", self.server.rev));
    }

    fn commit(&mut self, puts: Vec<String>, deletes: Vec<String>) {
        let events = self.server.commit(puts, deletes);
        for client in &mut self.clients {
            for watcher in client.watchers.values_mut().filter(|watcher| watcher.is_open) {
                let of: Vec<Event> = events
                    .iter()
                    .filter(|event| event.kv().unwrap().key().starts_with(watcher.prefix.as_bytes()))
                    .cloned()
                    .collect();
                if !of.is_empty() {
                    watcher.queue.push_back(Response::Events(of));
                }
            }
        }
    }

    fn tell(&mut self, c: usize, news: News) {
        if news.read || news.look || news.gap.is_some() || !news.check.is_empty() || news.stop.is_some() || news.start.is_some() {
            let wants = format!("  c{c} wants read {} look {} gap {:?} check {:?} since {} stop {:?} start {:?}", news.read, news.look, news.gap, news.check.iter().map(|id| format!("{}-{}", id.session.get(), id.number)).collect::<Vec<_>>(), news.since, news.stop, news.start.as_ref().map(|w| (w.watch, w.aim, w.from)));
            self.say(wants);
        }
        let held: Vec<u64> = news.held.iter().map(|(id, _)| id.number).collect();
        for number in held {
            self.held(c, number, "told");
        }
        for id in &news.gone {
            self.gone(c, id.number, "told");
        }
        let client = &mut self.clients[c];
        if news.look {
            client.tasks.push(Task::Look);
        }
        if let Some(stop) = news.stop {
            client.commands.push_back(Command::Stop(stop));
        }
        if let Some(start) = news.start {
            client.commands.push_back(Command::Start(start));
        }
        if news.read {
            client.tasks.push(Task::Read);
        }
        if !news.check.is_empty() {
            client.tasks.push(Task::Check { claims: news.check, since: news.since });
        }
        if let Some(watch) = news.gap {
            client.tasks.push(Task::Gap(watch));
        }
        if client.own.begins_to_sweep() {
            client.tasks.push(Task::Sweep);
        }
    }

    fn held(&mut self, c: usize, number: u64, how: &str) {
        self.say(format!("c{c} {number} held ({how})"));
        let id = ClaimId { session: self.clients[c].session, number };
        assert!(self.server.ever_held.contains(&id), "{id} was told held ({how}) and never was: exclusion");
        let mine = self.clients[c].mine.get_mut(&number).unwrap();
        if matches!(mine.state, State2::Joining | State2::Waiting) {
            mine.state = State2::Held;
        }
    }

    fn gone(&mut self, c: usize, number: u64, how: &str) {
        self.say(format!("c{c} {number} gone ({how})"));
        let mine = self.clients[c].mine.get_mut(&number).unwrap();
        let (id, state, removed) = (mine.claim.id, mine.state, mine.removed);
        if state != State2::Leaving {
            mine.state = State2::Over;
        }
        assert!(removed || state == State2::Leaving || state == State2::Over || !self.server.keys_of(id).is_empty() == false,
            "{id} is told gone ({how}) and stands");
        // core: a join that got no answer
        if state != State2::Leaving && self.clients[c].mine[&number].unanswered {
            self.leave(c, number);
        }
    }

    fn join(&mut self, c: usize) {
        let (name, kind) = (self.server.name.clone(), self.kind);
        let (weight, capacity) = match kind {
            Kind::Mutex => (1, 1),
            Kind::RwLock => (if self.dice.one_in(2) { Weight::MAX.get() } else { 1 }, Weight::MAX.get()),
            _ => (1 + self.dice.below(self.size as usize) as u32, self.size),
        };
        let client = &mut self.clients[c];
        client.last += 1;
        let number = client.last;
        let id = ClaimId { session: client.session, number };
        let claim = Claim::new(id, name, kind, Weight::new(weight).unwrap(), Weight::new(capacity).unwrap());
        client.mine.insert(number, Mine { claim: claim.clone(), state: State2::Joining, unanswered: false, removed: false });
        assert_eq!(client.own.begin(&claim), JoinStart::Asked);
        client.tasks.push(Task::SendJoin(number));
        self.say(format!("c{c} {number} asks for {weight}"));
    }

    /// As `leave_own`, and core repeats it until it is answered.
    fn leave(&mut self, c: usize, number: u64) {
        let name = self.server.name.clone();
        let client = &mut self.clients[c];
        let mine = client.mine.get_mut(&number).unwrap();
        let is_void = mine.unanswered || mine.state == State2::Joining;
        mine.state = State2::Leaving;
        let id = mine.claim.id;
        if is_void {
            mine.unanswered = true;
            client.own.make_void(id, Moment::START, Duration::from_secs(100));
        }
        client.tasks.retain(|task| !matches!(task, Task::SendJoin(n) if *n == number)); // retracted
        let start = client.own.leaves(&name, id);
        if start.is_nowhere {
            let news = client.own.left(&name, id, None);
            client.mine.get_mut(&number).unwrap().state = State2::Over;
            self.say(format!("c{c} {number} leaves from nowhere"));
            self.tell(c, news);
            return;
        }
        client.tasks.push(Task::SendLeave { number, void: start.may_come });
        self.say(format!("c{c} {number} leaves, void {is_void} may come {}", start.may_come));
    }

    fn settle(&mut self, c: usize, number: u64, rev: i64, view: Option<LineView>, again: bool) {
        let name = self.server.name.clone();
        let mine = &self.clients[c].mine[&number];
        if mine.state != State2::Joining {
            return; // its future was dropped, or it was told meanwhile
        }
        let claim = mine.claim.clone();
        let own = &self.clients[c].own;
        let (view, shown) = match view {
            Some(view) => {
                let shown = own.shown(&view);
                (view, shown)
            }
            None => {
                if own.waits_behind_own(&claim, rev.unsigned_abs()) {
                    return self.waits(c, number);
                }
                match own.seen_at(&claim, rev) {
                    Some(Watched::Waits) => return self.waits(c, number),
                    Some(Watched::Line(view, shown)) => (view, shown),
                    None => {
                        let view = (!own.is_watched(&name) || self.dice.one_in(4)).then(|| self.server.view());
                        self.clients[c].tasks.push(Task::Settle { number, rev, view, again });
                        return;
                    }
                }
            }
        };
        let mine = shown.claim(claim.id).copied();
        let stands = mine.is_some_and(|mine| matches!(self.clients[c].own.stage(claim.id), Some(Stage::Stands(s)) if s.order == mine.order));
        if mine.is_some() && !stands && !again {
            let view = Some(self.server.view());
            self.clients[c].tasks.push(Task::Settle { number, rev, view, again: true });
            return;
        }
        if mine.is_none() || !stands {
            let news = self.clients[c].own.left(&name, claim.id, None);
            self.answered(c, number);
            self.gone(c, number, "settled");
            return self.tell(c, news);
        }
        match place(&shown, claim.id) {
            Place::Held => {
                let held = self.clients[c].own.hold(&name, claim.id, mine.unwrap().order);
                let skip = self.server.skip();
                let news = self.clients[c].own.saw(&name, &view, skip);
                self.answered(c, number);
                match held {
                    Some(_) => self.held(c, number, "settled"),
                    None => self.gone(c, number, "held, but"),
                }
                self.tell(c, news);
            }
            Place::Waiting => {
                let skip = self.server.skip();
                let news = self.clients[c].own.saw(&name, &view, skip);
                self.waits(c, number);
                self.tell(c, news);
            }
            other => panic!("{other:?}"),
        }
    }

    fn answered(&mut self, _c: usize, _number: u64) {}

    fn waits(&mut self, c: usize, number: u64) {
        self.say(format!("c{c} {number} waits"));
        let mine = self.clients[c].mine.get_mut(&number).unwrap();
        if mine.state == State2::Joining {
            mine.state = State2::Waiting;
        }
    }

    fn run(&mut self, c: usize, task: Task) {
        let (name, skip) = (self.server.name.clone(), self.server.skip());
        match task {
            Task::SendJoin(number) => {
                let id = self.clients[c].mine[&number].claim.id;
                if !self.clients[c].own.may_be_sent(id) {
                    return;
                }
                let is_read = !self.clients[c].own.needs_no_read(&name, id);
                self.clients[c].tasks.push(Task::JoinArrives { number, is_read });
            }
            Task::JoinArrives { number, is_read } => {
                let claim = self.clients[c].mine[&number].claim.clone();
                let is_void = self.server.voids.contains(&claim.id);
                let stands = !self.server.keys_of(claim.id).is_empty();
                let mut done = None;
                if !is_void && !stands {
                    let keys = self.server.names.of_claim(&claim, claim.capacity);
                    self.commit(keys, Vec::new());
                    done = Some(self.server.rev);
                }
                self.say(format!("c{c} {number} join carried out: {done:?} void {is_void}"));
                let view = (done.is_none() || is_read).then(|| self.server.view());
                let rev = self.server.rev;
                let answer = Task::JoinAnswer { number, done, is_void, view, rev };
                let lost = self.faults && self.dice.one_in(8);
                self.clients[c].tasks.push(if lost { Task::JoinLost(number) } else { answer });
            }
            Task::JoinLost(number) => {
                let claim = self.clients[c].mine[&number].claim.clone();
                self.clients[c].mine.get_mut(&number).unwrap().unanswered = true;
                let news = self.clients[c].own.is_answered(&name, claim.id, None, false);
                self.tell(c, news);
                self.clients[c].tasks.push(Task::JoinAgain(number));
            }
            Task::JoinAgain(number) => {
                if self.clients[c].mine[&number].state != State2::Joining {
                    return;
                }
                if self.dice.one_in(3) {
                    return self.leave(c, number);
                }
                let claim = self.clients[c].mine[&number].claim.clone();
                match self.clients[c].own.begin(&claim) {
                    JoinStart::Asked => self.clients[c].tasks.push(Task::SendJoin(number)),
                    JoinStart::Void => self.gone(c, number, "void"),
                }
            }
            Task::JoinAnswer { number, done, is_void, view, rev } => {
                let claim = self.clients[c].mine[&number].claim.clone();
                let place = done.and_then(|rev| Some((rev.unsigned_abs(), Token::from_order(rev.unsigned_abs())?)));
                let news = self.clients[c].own.is_answered(&name, claim.id, place, true);
                self.tell(c, news);
                if let Some(view) = view.as_ref().filter(|view| view.first().is_some_and(|first| first.id != claim.id)) {
                    let news = self.clients[c].own.saw(&name, view, skip);
                    self.tell(c, news);
                }
                if self.clients[c].mine[&number].state != State2::Joining {
                    return; // the future was dropped
                }
                if done.is_some() {
                    self.clients[c].tasks.push(Task::Settle { number, rev, view, again: false });
                } else if is_void {
                    let news = self.clients[c].own.left(&name, claim.id, None);
                    self.gone(c, number, "was void");
                    self.tell(c, news);
                } else if let Some(order) = view.as_ref().unwrap().place(claim.id) {
                    let news = self.clients[c].own.stands(&name, claim.id, order, Token::from_order(order).unwrap());
                    self.tell(c, news);
                    self.clients[c].tasks.push(Task::Settle { number, rev, view, again: false });
                } else {
                    self.clients[c].tasks.push(Task::SendJoin(number));
                }
            }
            Task::Settle { number, rev, view, again } => self.settle(c, number, rev, view, again),
            Task::SendLeave { number, void } => {
                let next = self.clients[c].own.next(&name);
                self.clients[c].tasks.push(Task::LeaveArrives { number, void, next });
            }
            Task::LeaveArrives { number, void, next } => {
                let id = self.clients[c].mine[&number].claim.id;
                let keys = self.server.keys_of(id);
                self.commit(Vec::new(), keys);
                if void {
                    self.server.voids.insert(id);
                    self.server.rev += 1;
                }
                self.say(format!("c{c} {number} leave carried out, next {next:?}"));
                let next = next.map(|next| (next, self.server.order(next)));
                let answer = Task::LeaveAnswer { number, rev: self.server.rev, next };
                let lost = self.faults && self.dice.one_in(8);
                self.clients[c].tasks.push(if lost { Task::LeaveAgain(number) } else { answer });
            }
            Task::LeaveAgain(number) => self.leave(c, number),
            Task::LeaveAnswer { number, rev, next } => {
                self.say(format!("c{c} {number} leave answered at {rev}, next {next:?}"));
                let mine = self.clients[c].mine.get_mut(&number).unwrap();
                mine.state = State2::Over;
                let id = mine.claim.id;
                let own = &self.clients[c].own;
                let news = match next {
                    Some(next) => own.left_before(&name, id, rev, next),
                    None => own.left(&name, id, Some(rev)),
                };
                self.tell(c, news);
            }
            Task::Read => {
                let fails = self.faults && self.dice.one_in(10);
                let view = (!fails).then(|| self.server.view());
                self.clients[c].tasks.push(Task::ReadAnswer(view));
            }
            Task::ReadAnswer(Some(view)) => {
                self.say(format!("c{c} has read at {}", view.revision));
                let news = self.clients[c].own.saw(&name, &view, skip);
                self.tell(c, news);
            }
            Task::ReadAnswer(None) | Task::CheckAnswer(None) => {
                self.clients[c].own.saw_nothing(&name);
                self.say(format!("c{c} a read failed"));
                self.clients[c].tasks.push(Task::Look);
            }
            Task::Check { claims, since } => {
                let past = self.dice.below(self.server.past.len() + 1);
                let (mut rev, mut keys) = match self.server.past.get(past) {
                    Some((rev, keys)) => (*rev, keys.clone()),
                    None => (self.server.rev, self.server.keys.clone()),
                };
                if rev < since {
                    (rev, keys) = (self.server.rev, self.server.keys.clone());
                }
                let view = self.server.view_of(&keys, rev);
                let found: Vec<_> = claims
                    .iter()
                    .map(|id| (*id, view.place(*id).zip(view.find(*id)).map(|(order, s)| (order, s.weight))))
                    .collect();
                self.say(format!("c{c} check of {claims:?} at {rev}: {:?}", found.iter().map(|(_, f)| f.is_some()).collect::<Vec<_>>()));
                let fails = self.faults && self.dice.one_in(10);
                self.clients[c].tasks.push(Task::CheckAnswer((!fails).then_some((rev, found))));
            }
            Task::CheckAnswer(Some((rev, found))) => {
                self.say(format!("c{c} has checked at {rev}: {}", found.len()));
                let news = self.clients[c].own.checked(&name, rev, &found);
                self.tell(c, news);
            }
            Task::Gap(watch) => {
                self.say(format!("c{c} gap {watch} is due"));
                if let Some((_, news)) = self.clients[c].own.gap_is_due(watch) {
                    self.tell(c, news);
                }
            }
            Task::Look => {
                self.say(format!("c{c} looks"));
                let view = self.server.view();
                self.clients[c].tasks.push(Task::LookAnswer(view));
            }
            Task::LookAnswer(view) => {
                let shown = self.clients[c].own.shown(&view);
                let wanted: BTreeSet<u64> = self.clients[c]
                    .mine
                    .iter()
                    .filter(|(_, mine)| mine.state == State2::Waiting)
                    .map(|(number, _)| *number)
                    .collect();
                let session = self.clients[c].session;
                let mut standing = HashSet::new();
                let mut held = Vec::new();
                for (claim, at) in tidelock_model::places(&shown).filter(|(claim, _)| claim.id.session == session && wanted.contains(&claim.id.number)) {
                    standing.insert(claim.id.number);
                    if at == Place::Held && self.clients[c].own.hold(&name, claim.id, claim.order).is_some() {
                        held.push(claim.id.number);
                    }
                }
                held.into_iter().for_each(|number| self.held(c, number, "look"));
                for number in wanted {
                    let id = ClaimId { session, number };
                    // Core names only what waited when it began to look.
                    if !standing.contains(&number)
                        && matches!(self.clients[c].own.stage(id), Some(Stage::Stands(s)) if s.order <= view.revision.unsigned_abs())
                    {
                        let news = self.clients[c].own.left(&name, id, Some(view.revision));
                        self.gone(c, number, "look");
                        self.tell(c, news);
                    }
                }
                let news = self.clients[c].own.saw(&name, &view, skip);
                self.tell(c, news);
            }
            Task::Hint { number, rev } => {
                let id = ClaimId { session: self.clients[c].session, number };
                let news = self.clients[c].own.is_evicted(&name, id, rev);
                self.tell(c, news);
            }
            Task::Sweep => {
                if let Some(unneeded) = self.clients[c].own.sweep() {
                    self.clients[c].commands.extend(unneeded.into_iter().map(Command::Stop));
                    self.clients[c].tasks.push(Task::Sweep);
                }
            }
            Task::Lightened { number, rev } => {
                let id = ClaimId { session: self.clients[c].session, number };
                let news = self.clients[c].own.lightened(&name, id, rev);
                self.tell(c, news);
            }
        }
    }

    /// One thing that the stream does. False: nothing is to do.
    fn stream(&mut self, c: usize) -> bool {
        let name = self.server.name.clone();
        if let Some(command) = self.clients[c].commands.pop_front() {
            match command {
                Command::Start(wanted) => self.clients[c].starting.push_back(wanted),
                Command::Stop(watch) => self.clients[c].stopping.push_back(watch),
            }
            return true;
        }
        if let Some(wanted) = self.clients[c].starting.pop_front() {
            if self.clients[c].begun.insert(wanted.watch) {
                let prefix = match wanted.aim {
                    Aim::Line => self.server.names.line(&name),
                    Aim::Claim(id) => self.server.prefix(id),
                };
                let mut queue = VecDeque::new();
                let mut is_open = true;
                if wanted.from > 0 && wanted.from <= self.server.compacted {
                    queue.push_back(Response::Canceled);
                    is_open = false;
                } else {
                    queue.push_back(Response::Created { from: wanted.from, now: self.server.rev });
                }
                if wanted.from > 0 && is_open {
                    let mut by_rev: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
                    for (rev, event) in &self.server.log {
                        if *rev >= wanted.from && event.kv().unwrap().key().starts_with(prefix.as_bytes()) {
                            by_rev.entry(*rev).or_default().push(event.clone());
                        }
                    }
                    queue.extend(by_rev.into_values().map(Response::Events));
                }
                self.log.push(format!("c{c} watch {} {:?} from {}", wanted.watch, wanted.aim, wanted.from));
                self.clients[c].watchers.insert(wanted.watch, Watcher { prefix, is_open, queue });
            }
            return true;
        }
        if let Some(watch) = self.clients[c].stopping.pop_front() {
            self.clients[c].begun.remove(&watch);
            self.clients[c].watchers.remove(&watch);
            return true;
        }
        let mut ready: Vec<i64> =
            self.clients[c].watchers.iter().filter(|(_, w)| !w.queue.is_empty()).map(|(id, _)| *id).collect();
        ready.sort_unstable();
        if ready.is_empty() {
            return false;
        }
        let watch = ready[self.dice.below(ready.len())];
        let response = self.clients[c].watchers.get_mut(&watch).unwrap().queue.pop_front().unwrap();
        match response {
            Response::Created { from, now } => {
                let since = if from > 0 { from - 1 } else { now };
                match self.clients[c].own.is_set(watch, since) {
                    Some((_, news)) => {
                        self.say(format!("c{c} watch {watch} is set since {since}"));
                        self.tell(c, news);
                    }
                    None => self.clients[c].stopping.push_back(watch),
                }
            }
            Response::Canceled => {
                self.clients[c].watchers.remove(&watch);
                if let Some(wanted) = self.clients[c].own.begins_anew(watch) {
                    self.clients[c].begun.remove(&watch);
                    self.clients[c].starting.push_back(wanted);
                }
            }
            Response::Events(events) => {
                if let Some((_, news)) = self.clients[c].own.happened(watch, &events) {
                    self.say(format!("c{c} watch {watch} tells of {}", events[0].kv().unwrap().mod_revision()));
                    self.tell(c, news);
                }
            }
        }
        true
    }

    fn breaks(&mut self, c: usize) {
        self.say(format!("c{c} stream breaks"));
        let client = &mut self.clients[c];
        client.watchers.clear();
        client.begun.clear();
        client.stopping.clear();
        client.starting = client.own.all_wanted().into();
        if self.dice.one_in(4) {
            self.server.compacted = self.server.rev;
        }
    }

    /// One random step of what is under way. False: nothing is.
    fn step(&mut self) -> bool {
        let count = self.clients.len();
        let first = self.dice.below(count);
        for of in 0..count {
            let c = (first + of) % count;
            let tasks = self.clients[c].tasks.len();
            if tasks > 0 && self.dice.one_in(2) {
                let task = self.dice.below(tasks);
                let task = self.clients[c].tasks.swap_remove(task);
                self.run(c, task);
                return true;
            }
            if self.stream(c) {
                return true;
            }
            if tasks > 0 {
                let task = self.dice.below(tasks);
                let task = self.clients[c].tasks.swap_remove(task);
                self.run(c, task);
                return true;
            }
        }
        false
    }

    fn user(&mut self) {
        let c = self.dice.below(self.clients.len());
        let of = |client: &Client, state: State2| -> Vec<u64> {
            client.mine.iter().filter(|(_, mine)| mine.state == state).map(|(number, _)| *number).collect()
        };
        match self.dice.below(20) {
            0..=6 if self.clients[c].mine.values().filter(|mine| mine.state != State2::Over).count() < 4 => self.join(c),
            7..=14 => {
                let held = of(&self.clients[c], State2::Held);
                if let Some(number) = held.first() {
                    self.leave(c, *number);
                }
            }
            15 => {
                let waiting = of(&self.clients[c], State2::Waiting);
                if !waiting.is_empty() {
                    let number = waiting[self.dice.below(waiting.len())];
                    self.leave(c, number);
                }
            }
            16 => {
                let joining = of(&self.clients[c], State2::Joining);
                if let Some(number) = joining.first() {
                    self.leave(c, *number);
                }
            }
            17 if self.faults => {
                // By hand, or evicted.
                let view = self.server.view();
                let all: Vec<ClaimId> = view.each().map(|(_, standing)| standing.id).collect();
                if all.is_empty() {
                    return;
                }
                let id = all[self.dice.below(all.len())];
                let of = (id.session.get() - 1) as usize;
                let mine = &self.clients[of].mine[&id.number];
                if std::env::var_os("SIM_ANEW").is_none() && (mine.unanswered || mine.state == State2::Joining) {
                    return; // a repeated join would make it anew: F7
                }
                let keys = self.server.keys_of(id);
                self.commit(Vec::new(), keys);
                self.clients[of].mine.get_mut(&id.number).unwrap().removed = true;
                let hint = self.dice.one_in(2);
                self.say(format!("c{of} {} is taken out, hint {hint}", id.number));
                if hint {
                    self.server.voids.insert(id);
                    let rev = self.server.rev;
                    self.clients[of].tasks.push(Task::Hint { number: id.number, rev });
                }
            }
            18 if self.faults => self.breaks(c),
            19 if self.kind == Kind::RwLock => {
                let held = of(&self.clients[c], State2::Held);
                let session = self.clients[c].session;
                for number in held {
                    let id = ClaimId { session, number };
                    let rest: Vec<String> = self.server.keys_of(id).into_iter().filter(|key| key.ends_with('+')).collect();
                    if !rest.is_empty() {
                        self.say(format!("c{c} {number} becomes a reader"));
                        self.commit(Vec::new(), rest);
                        let rev = self.server.rev;
                        self.clients[c].tasks.push(Task::Lightened { number, rev });
                    }
                }
            }
            _ => {}
        }
    }

    fn drain(&mut self) {
        for _ in 0..200_000 {
            if !self.step() {
                return;
            }
        }
        panic!("never comes to rest");
    }

    /// As the next renewal: what was taken out by hand is found.
    fn renew(&mut self) {
        let name = self.server.name.clone();
        for c in 0..self.clients.len() {
            let removed: Vec<u64> = self.clients[c].mine.iter()
                .filter(|(_, mine)| mine.removed && matches!(mine.state, State2::Held | State2::Waiting))
                .map(|(number, _)| *number).collect();
            for number in removed {
                let id = ClaimId { session: self.clients[c].session, number };
                if !self.server.keys_of(id).is_empty() {
                    continue; // a repeated join has made it anew
                }
                let news = self.clients[c].own.left(&name, id, Some(self.server.rev));
                self.gone(c, number, "renewed");
                self.tell(c, news);
            }
        }
        self.drain();
    }

    fn everyone_was_told(&mut self) {
        self.renew();
        let shown = self.server.view().shown(|_, _| None);
        let held: Vec<ClaimId> = shown.held().map(|claim| claim.id).collect();
        for id in held {
            let mine = &self.clients[(id.session.get() - 1) as usize].mine[&id.number];
            assert!(mine.state == State2::Held, "{id} has its turn, and nobody is told: {:?}", mine.state);
        }
    }

    fn play(&mut self) {
        let phases = 1 + self.dice.below(4);
        for _ in 0..phases {
            let steps = 40 + self.dice.below(400);
            let ease = 1 + self.dice.below(6);
            for _ in 0..steps {
                if self.dice.one_in(ease) {
                    self.user();
                }
                self.step();
            }
            self.drain();
            self.everyone_was_told();
        }
        // Everyone leaves.
        self.say("all leave".to_owned());
        for _ in 0..10_000 {
            let mut is_any = false;
            for c in 0..self.clients.len() {
                let held: Vec<u64> = self.clients[c].mine.iter().filter(|(_, mine)| mine.state == State2::Held).map(|(n, _)| *n).collect();
                for number in held {
                    is_any = true;
                    self.leave(c, number);
                }
            }
            if !is_any {
                break;
            }
            self.drain();
        }
        // Those taken out by hand are found by a renewal.
        for c in 0..self.clients.len() {
            let left: Vec<u64> = self.clients[c].mine.iter().filter(|(_, mine)| !matches!(mine.state, State2::Over)).map(|(n, _)| *n).collect();
            for number in left {
                let mine = &self.clients[c].mine[&number];
                assert!(mine.removed, "c{c} {number} is left over: {:?}", mine.state);
            }
        }
        self.renew();
        assert!(self.server.keys.is_empty(), "keys are left: {:?}", self.server.keys);
        let is_removed = self.clients.iter().flat_map(|client| client.mine.values()).any(|mine| mine.removed);
        for c in 0..self.clients.len() {
            let state = self.clients[c].own.state();
            if true {
                assert!(state.claims.is_empty() && state.lines.is_empty() && state.watches.is_empty() && state.under_way.is_empty(),
                    "c{c}: {:?} {:?} {:?}", state.claims, state.lines.len(), state.watches);
            }
            drop(state);
            let watchers: Vec<_> = self.clients[c].watchers.keys().collect();
            assert!(watchers.is_empty(), "c{c} watches: {watchers:?}");
        }
    }
}

#[test]
fn clients_against_a_simulated_line() {
    let number = |key: &str| std::env::var(key).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("SIM_COUNT").unwrap_or(2_000);
    let seeds = number("SIM_SEED").map_or(1..count + 1, |seed| seed..seed + 1);
    let mut failed = BTreeMap::<String, (u64, u64)>::new();
    for seed in seeds.clone() {
        let played = std::panic::catch_unwind(|| Sim::new(seed).play());
        if let Err(why) = played {
            let text = why.downcast_ref::<String>().cloned().or_else(|| why.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
            eprintln!("SEED {seed}: {text}");
            let kind: String = text.chars().filter(|c| !c.is_ascii_digit()).take(200).collect();
            failed.entry(kind).or_insert((seed, 0)).1 += 1;
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
