//! The simulation: clients, servers, the resource and the messages between them, moved by one queue of items in time.
//!
//! Everything that happens is an item: a client's next step, a message that arrives, a timer, an act. The earliest is
//! taken out, and may put others in. Delays are drawn by seed, so a run is a function of its settings. In a *scheduled*
//! run a client does its next operation only when it is chosen, and each operation is complete before the next choice.

mod acting;
mod client_side;
mod local_line;
mod server_side;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::Hash;
use std::ops::Range;

use tidelock_model::{ClaimId, Token};

use crate::client::{Client, Doing};
use crate::cohort::{self, Cohort};
use crate::program::{Op, Program};
use crate::record::{Event, Kind, NONE, Record, Shade};
use crate::resource::Resource;
use crate::server::Server;
use crate::settings::{Choice, Settings, Work};

/// A message of one operation: to the server, or back.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub(crate) op: Op,
    /// The client's turn when it was sent.
    turn: u32,
    session: u32,
    claim: u32,
    /// The value to write and the version that was read; in a reply, what was read.
    value: u32,
    version: u32,
    token: u32,
    sent: u32,
    /// The answer: 0 is a no.
    answer: u32,
    cause: u32,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    /// A client's next step, in this turn.
    Run(u32),
    /// A request arrives.
    Request(Message),
    /// A reply arrives.
    Reply(Message),
    /// The store tells a client that it holds: slot, claim, token, cause.
    Told(u8, u32, u32, u32),
    /// A hint arrives: cause.
    Hint(u32),
    /// A client that polls asks again, in this turn.
    Poll(u32),
    /// Nothing came back, in this turn; the event of the lost message.
    Timeout(u32, u32),
    /// The keeper renews.
    Keeper,
    /// The client's own clock may say that its lock is lost.
    Deadline(u32),
    /// Leases may end at this server.
    Ends(u8),
    /// This server is there again.
    Starts(u8),
    /// An action of the settings, by its number.
    Act(u16),
    /// A pause is over: cause.
    Resume(u32),
    /// The linger of a hold may be over in this local line.
    Lingered(u16),
}

/// An item in the queue. The earliest is the greatest; of those of one moment, the one that was put in first.
#[derive(Clone, Copy, Debug)]
struct Queued {
    at: u32,
    number: u32,
    who: u16,
    item: Item,
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Queued {}

/// What is counted while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Messages sent.
    pub messages: u32,
    /// Times a client began to hold.
    pub holds: u32,
    /// Times it did so while another believed that it held.
    pub overlaps: u32,
    /// Times two did so although the lease of neither had ended.
    pub betrayals: u32,
    /// Rounds completed.
    pub rounds: u32,
    /// Times a client lost its lock.
    pub losses: u32,
    /// Requests to the store.
    pub requests: u32,
    /// Times a hold was passed on inside a process.
    pub passes: u32,
}

/// The whole simulation at one moment.
#[derive(Clone, Debug)]
pub struct Machine {
    settings: Settings,
    writer: Program,
    reader: Program,
    /// The present.
    pub now: u32,
    /// All clients.
    pub clients: Vec<Client>,
    /// The local lines: those of each process, one after the other.
    cohorts: Vec<Cohort>,
    /// All servers that keep locks.
    pub servers: Vec<Server>,
    /// What is protected.
    pub resource: Resource,
    /// What was counted.
    pub counters: Counters,
    queue: BinaryHeap<Queued>,
    queued: u32,
    /// Whether replicas are kept: only if one may take over.
    replicates: bool,
    /// Whether anything can get lost, so that waiting for a reply needs an end.
    ends_watched: [bool; 3],
}

impl Machine {
    /// The beginning of the run with these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let clients = (0..settings.lanes()).map(|who| Client::new(settings.seed, who)).collect();
        let mut machine = Self {
            writer: Program::of(settings, false),
            reader: Program::of(settings, true),
            now: 0,
            clients,
            cohorts: Self::cohorts(settings),
            servers: (0..settings.policy.servers()).map(|_| Server::new()).collect(),
            resource: Resource::new(settings.stock, settings.segments),
            counters: Counters::default(),
            queue: BinaryHeap::new(),
            queued: 0,
            replicates: settings.actions.iter().any(|action| action.act == crate::settings::Act::Failover)
                || settings.schedule.contains(&Choice::Failover),
            ends_watched: [false; 3],
            settings: settings.clone(),
        };
        if !machine.is_scheduled() {
            for who in 0..settings.lanes() {
                machine.push(0, who, Item::Run(0));
            }
            for number in 0..settings.actions.len() {
                machine.push(settings.actions[number].at, 0, Item::Act(number as u16));
            }
        }
        machine
    }

    /// The beginning of a search: one choice at a time. A replica is kept only if it may take over.
    #[must_use]
    pub fn to_be_scheduled(settings: &Settings, replicates: bool) -> Self {
        let mut settings = settings.clone();
        settings.schedule = vec![Choice::Step(0)];
        Self { replicates, ..Self::new(&settings) }
    }

    /// The settings of this run.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The program of this client.
    #[must_use]
    pub fn program(&self, who: u16) -> &Program {
        if self.settings.reads_only(who) { &self.reader } else { &self.writer }
    }

    /// Carries out the earliest item. False: nothing is left to happen before this moment.
    pub fn step(&mut self, before: u32, record: &mut Record) -> bool {
        match self.queue.peek() {
            Some(next) if next.at < before => {}
            _ => return false,
        }
        let Some(Queued { at, who, item, .. }) = self.queue.pop() else { return false };
        self.now = at;
        self.handle(who, item, record);
        true
    }

    /// Carries out one choice of a schedule, and all that follows from it at once.
    pub fn choose(&mut self, choice: Choice, record: &mut Record) {
        self.begin(choice, record);
        while self.step(u32::MAX, record) {}
    }

    /// Begins one choice of a schedule; what follows from it are the steps until nothing is left to happen.
    pub fn begin(&mut self, choice: Choice, record: &mut Record) {
        self.now += 40;
        match choice {
            Choice::Step(who) if self.has(who) && self.can_step(who.into()) => {
                self.client_mut(who.into()).doing = Doing::Ready;
                self.run(who.into(), record);
            }
            Choice::Lapse(who) if self.has(who) => self.lapse(who.into(), record),
            Choice::Crash(who) if self.has(who) => self.kill(who.into(), record),
            Choice::Failover => self.fail_over(0, record),
            _ => {}
        }
    }

    fn has(&self, who: u8) -> bool {
        usize::from(who) < self.clients.len()
    }

    /// Whether this client can be chosen for its next operation.
    #[must_use]
    pub fn can_step(&self, who: u16) -> bool {
        matches!(self.client(who).doing, Doing::Ready | Doing::Asleep)
    }

    /// Whether a server keeps something for this client that ends with its lease.
    #[must_use]
    pub fn has_lease(&self, who: u16) -> bool {
        let (me, process) = (self.owner(who), self.settings.process(who));
        self.servers.iter().any(|server| {
            let is_session = |id: tidelock_model::SessionId| crate::ids::owner(id) == process;
            let owns_key = server.key.owner == Some(me) && server.key.until.is_some();
            owns_key || server.world.sessions().any(|(id, _)| is_session(id))
        })
    }

    /// Whether everything that will happen has happened.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.clients.iter().all(Client::is_over)
    }

    /// A number that is the same for states with the same future.
    #[must_use]
    pub fn key(&self) -> u128 {
        use std::hash::Hasher;
        let mut low = Mixer(0xcbf2_9ce4_8422_2325);
        let mut high = Mixer(0x6c62_272e_07bb_0142);
        for hasher in [&mut low, &mut high] {
            for client in &self.clients {
                client.key().hash(hasher);
            }
            self.cohorts.iter().for_each(|cohort| cohort.mix(self.now, hasher));
            for server in &self.servers {
                server.world.hash(hasher);
                server.key.hash(hasher);
                server.replica().hash(hasher);
            }
            self.resource.key().hash(hasher);
            (self.counters.overlaps > 0, self.counters.betrayals > 0).hash(hasher);
        }
        u128::from(low.finish()) << 64 | u128::from(high.finish())
    }

    fn handle(&mut self, who: u16, item: Item, record: &mut Record) {
        let is_of_client = !matches!(
            item,
            Item::Request(_) | Item::Ends(_) | Item::Starts(_) | Item::Act(_) | Item::Resume(_)
        );
        if is_of_client {
            let client = self.client(who);
            if client.doing == Doing::Dead {
                return;
            }
            if client.paused_until > self.now {
                let until = client.paused_until;
                self.push(until, who, item); // it happens as soon as the client goes on, in the same order
                return;
            }
        }
        match item {
            Item::Run(turn) => {
                if self.client(who).turn == turn && !self.client(who).is_over() {
                    self.client_mut(who).doing = Doing::Ready;
                    self.run(who, record);
                }
            }
            Item::Request(message) => self.serve(who, message, record),
            Item::Reply(message) => self.answered(who, message, record),
            Item::Told(slot, claim, token, cause) => self.told(who, (slot, claim, token), cause, record),
            Item::Hint(cause) => self.hinted(who, cause, record),
            Item::Poll(turn) => self.poll(who, turn, record),
            Item::Timeout(turn, cause) => self.timed_out(who, turn, cause, record),
            Item::Keeper => self.keep(who, record),
            Item::Deadline(until) => self.deadline(who, until, record),
            Item::Lingered(cohort) => self.next_leads(cohort.into(), record),
            Item::Ends(server) => self.ends(server, record),
            // Not if it was killed meanwhile.
            Item::Starts(server) if self.servers[usize::from(server)].down_until <= self.now => {
                self.start(server, record);
            }
            Item::Starts(_) => {}
            Item::Act(number) => self.act(number, record),
            Item::Resume(cause) => {
                let client = self.client(who);
                if !client.is_over() && client.paused_until <= self.now {
                    let event = self.note(Kind::Resumed, who, 0, 0, cause, record);
                    self.client_mut(who).because = event;
                    self.shade(who, record);
                }
            }
        }
    }

    fn push(&mut self, at: u32, who: u16, item: Item) {
        self.queued += 1;
        self.queue.push(Queued { at, number: self.queued, who, item });
    }

    fn note(&self, kind: Kind, who: u16, a: u32, b: u32, cause: u32, record: &mut Record) -> u32 {
        record.push(Event { at: self.now, kind, who, a, b, cause })
    }

    /// Sends something to or from a client: when it arrives, or `None` if it gets lost.
    fn travel(&mut self, who: u16) -> Option<u32> {
        self.counters.messages += 1;
        if self.is_scheduled() {
            self.now += 5;
            return Some(self.now);
        }
        let (latency, loss, now) = (self.settings.latency, self.settings.loss, self.now);
        let client = self.client_mut(who);
        let takes = client.draws.around(latency);
        let is_lost = client.draws.percent(loss) || client.cut_until > now;
        if is_lost { None } else { Some(now + takes) }
    }

    fn client(&self, who: u16) -> &Client {
        &self.clients[usize::from(who)]
    }

    fn client_mut(&mut self, who: u16) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    /// The lanes that share a session with this one: the tasks of its process, if they use Tidelock.
    fn family(&self, who: u16) -> Range<u16> {
        if self.settings.policy.has_line() { self.process_of(who) } else { who..who + 1 }
    }

    /// The lanes of this one's process.
    fn process_of(&self, who: u16) -> Range<u16> {
        self.settings.lanes_of(self.settings.process(who))
    }

    /// The lane whose session number and keeper are its family's.
    fn home(&self, who: u16) -> u16 {
        self.family(who).start
    }

    fn is_scheduled(&self) -> bool {
        !self.settings.schedule.is_empty()
    }

    /// The segment of the stock from which this client sells.
    pub(crate) fn segment(&self, who: u16) -> usize {
        usize::from(who) % usize::from(self.settings.segments)
    }

    /// The names of a client's two locks.
    fn name(&self, who: u16, slot: u8) -> u8 {
        use crate::policy::Policy;
        match self.settings.policy {
            Policy::TwoUnsorted => slot ^ (who % 2) as u8,
            Policy::TwoSorted => slot,
            Policy::Nested => 0,
            _ => self.segment(who) as u8,
        }
    }

    /// Brings the lane of this client up to date.
    fn shade(&self, who: u16, record: &mut Record) {
        if record.keeps {
            let shade = self.shade_of(who);
            let token = if self.settings.policy.has_line() { self.client(who).token() } else { 0 };
            record.shade(self.now, who, shade, token);
        }
    }

    /// What this client's lane shows now.
    #[must_use]
    pub fn shade_of(&self, who: u16) -> Shade {
        let client = self.client(who);
        let is_paused = client.paused_until > self.now;
        match client.doing {
            Doing::Dead => Shade::Dead,
            Doing::Ended => Shade::Ended,
            _ if is_paused && client.holds_any() && !self.is_true(who) => Shade::PausedStale,
            _ if is_paused && (client.holds_any() || client.is_at_work) => Shade::PausedHolding,
            _ if is_paused => Shade::Paused,
            _ if client.holds_any() => {
                if client.knows_loss || !self.is_true(who) {
                    Shade::Stale
                } else if client.is_in_jeopardy {
                    Shade::Jeopardy
                } else if client.waits_since.is_some() {
                    Shade::Waiting // for its second lock
                } else {
                    Shade::Held
                }
            }
            Doing::InLine if self.cohort_of(who).is_some() && client.claims[0] == 0 => Shade::Behind,
            _ if client.waits_since.is_some() => Shade::Waiting,
            _ if client.is_at_work => Shade::Bare,
            _ => Shade::Rest,
        }
    }

    /// Whether the store agrees that this client holds what it believes to hold.
    #[must_use]
    pub fn is_true(&self, who: u16) -> bool {
        let client = self.client(who);
        if !self.settings.policy.has_line() {
            let named = |server: &&Server| {
                server.key.owner == Some(self.owner(who)) || server.key.readers.all().contains(&who)
            };
            return self.servers.iter().filter(named).count() > self.servers.len() / 2;
        }
        (0..2u8).all(|slot| {
            let Some(token) = client.holds[usize::from(slot)] else { return true };
            let line = self.servers[0].world.line(&self.name(who, slot));
            let id = self.claim(who, slot);
            let claim = line.and_then(|line| line.claim(id));
            claim.and_then(|claim| claim.token).is_some_and(|held| self.is_grant_of(held, token))
        })
    }

    /// The number of the token that a client has from this grant.
    pub(crate) fn number(&self, token: Token) -> u32 {
        let order = token.store_order() as u32;
        if self.settings.policy == crate::policy::Policy::Cohort { cohort::token(order) } else { order }
    }

    /// Whether this number is of that grant, or of a pass of it.
    pub(crate) fn is_grant_of(&self, token: Token, number: u32) -> bool {
        let first = self.number(token);
        first == number || (!self.cohorts.is_empty() && cohort::parts(first).0 == cohort::parts(number).0)
    }

    /// The lane whose claim this is: the task that waits with it or holds by it; of those that nobody knows any more, the
    /// first one.
    #[must_use]
    pub fn lane_of(&self, id: ClaimId) -> Option<u16> {
        let (slot, claim) = (usize::from(id.number as u16 & 1), (id.number >> 1) as u32);
        let lanes = self.settings.lanes_of(crate::ids::owner(id.session));
        let has_it = |who: &u16| self.client(*who).claims[slot] == claim;
        lanes.clone().find(has_it).or_else(|| lanes.clone().next())
    }

    /// The value with which a client marks a key as its own.
    fn owner(&self, who: u16) -> u16 {
        if self.settings.policy == crate::policy::Policy::ThreadId { 1 } else { who }
    }

    /// Whether two clients that both believe to hold contradict each other.
    fn conflicts(&self, one: u16, other: u16) -> bool {
        if self.settings.work == Work::Seats {
            return false;
        }
        let both_read = self.settings.reads_only(one) && self.settings.reads_only(other);
        let names = |who: u16| {
            let held = move |slot: &u8| self.client(who).holds[usize::from(*slot)].is_some();
            (0..2u8).filter(held).map(move |slot| self.name(who, slot))
        };
        !both_read && names(one).any(|mine| names(other).any(|its| its == mine))
    }
}

/// FNV-1a over words.
struct Mixer(u64);

impl std::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// No cause.
const FIRST: u32 = NONE;
