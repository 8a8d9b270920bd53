//! What happens in a world, as events that the checker of histories reads; and what can only be judged while it happens.
//!
//! A hold counts from when its user has the guard until the guard cannot be trusted any more by the client's own clock.
//! That is asked in a way that changes nothing, so the keeper must find out by itself.
//!
//! Judged here, beside the history: at the moment of a grant in the store, the holds that others trust must leave room for
//! it; a loss without a cause; a loss that the clock shows and nobody was told of; a turn that its waiter hears of late; a
//! line in which claims wait and nobody holds.

mod cohorts;
mod excuses;
mod judge;
mod leaves;
mod requests;
mod store;
mod users;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimId, Kind, Lost};
use tidelock_history::{Event, EventKind};

use crate::plan::{Part, Plan, ms};
use crate::time::{ClientClock, Time, lock};

/// How late a client's alarm may be seen: it looks at everything that is due at once.
const PROMPT: Duration = Duration::from_millis(100);

thread_local! {
    static CURRENT: RefCell<Arc<[u64]>> = RefCell::new(Arc::new([]));
}

/// Runs `work` on behalf of these claims of the history: a join that it sends is that of the claim with its name.
pub(crate) fn on_behalf_of<T>(claims: &Arc<[u64]>, work: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(claims.clone());
    let done = work();
    CURRENT.set(before);
    done
}

/// A promise that a world broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The check that found it, in a word.
    pub(crate) check: &'static str,
    pub(crate) sentence: String,
    /// How many events there were.
    pub(crate) after: usize,
}

pub(crate) struct Record {
    time: Arc<Time>,
    /// The longest lifetime of any claim of the world.
    longest_ttl: Duration,
    /// When the last trouble is over.
    healed: Moment,
    /// Whether any client passes holds on among its own tasks.
    lingers: bool,
    /// How late a waiter may hear of its turn.
    news_bound: Duration,
    /// How long a client may pause before it tries again to open a session, where that is longer than usual.
    longest_pause: Duration,
    /// How long a request and its answer take at most, while nothing is wrong.
    answer: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    events: Vec<Event>,
    claims: u64,
    clients: Vec<ClientState>,
    names: BTreeMap<Arc<str>, NameState>,
    /// What is asked for and held, by the history's claims.
    asked: BTreeMap<u64, Asked>,
    /// The claims in the store, or on their way there.
    standing: BTreeMap<ClaimId, Standing>,
    /// Claims that the store has granted, and whose waiters have not heard of it.
    unheard: BTreeSet<ClaimId>,
    /// Claims for which nobody has a use any more, since then, and whose leaves the store has not heard of.
    leaving: BTreeMap<ClaimId, Moment>,
    /// How many have come to local lines.
    arrivals: u64,
    /// What is asked, and how much was.
    under_way: BTreeMap<u64, UnderWay>,
    requests: u64,
    findings: Vec<Finding>,
}

struct ClientState {
    who: Arc<str>,
    clock: Arc<ClientClock>,
    max_hold: Option<Duration>,
    linger: Duration,
    command_deadline: Duration,
    longest_pause: Duration,
    connect_deadline: Duration,
    /// When something went wrong last that may cost it a hold.
    touched: Moment,
    /// Until when what it asks may not reach the store.
    cut_off: Moment,
    /// By when the ends that are under way are over.
    ending: Vec<Moment>,
}

impl ClientState {
    /// Until when something goes wrong that may cost it a hold.
    fn touched(&self) -> Moment {
        self.ending.iter().copied().fold(self.touched, Moment::max)
    }
}

struct NameState {
    holds: BTreeMap<u64, Held>,
    asking: BTreeSet<u64>,
    /// Acquires that may hold it without showing it.
    busy: usize,
    idle_since: Option<Moment>,
    touched: Moment,
}

impl Default for NameState {
    fn default() -> Self {
        let (holds, asking) = (BTreeMap::new(), BTreeSet::new());
        Self { holds, asking, busy: 0, idle_since: None, touched: Moment::START }
    }
}

struct Asked {
    client: usize,
    name: Arc<str>,
    kind: Kind,
    weight: u64,
    /// Under which id it stands in line.
    id: Option<ClaimId>,
    /// Its place in a local line, once it has come there.
    place: Option<LocalPlace>,
}

/// A place in the local line of a client: behind all with a smaller number.
#[derive(Clone, Copy)]
struct LocalPlace {
    /// Of which client: one that is closed has a successor.
    of: usize,
    number: u64,
    /// Whether its user polls it.
    is_polled: bool,
    /// Whether its user asked for that alone, and by no other tool.
    is_plain: bool,
    /// Whether its user asked for several: another one of them may be the one that fails.
    is_one_of_several: bool,
}

impl LocalPlace {
    /// Whether it is seen at once that its user holds. Of several, it may hold one already without showing it.
    fn is_shown(&self) -> bool {
        self.is_polled && !self.is_one_of_several
    }

    /// Whether nothing comes between its grant and what is recorded.
    fn is_at_once(&self) -> bool {
        self.is_shown() && self.is_plain
    }
}

struct Held {
    id: ClaimId,
    lost: Lost,
    /// Since when its user has it, and since when its client can have known.
    since: Moment,
    granted: Moment,
    weight: u64,
    kind: Kind,
    is_excused: bool,
    /// Whether it becomes lighter, which has the time of a command. If no answer comes, it is lost.
    is_lightening: bool,
}

/// A request under way.
struct UnderWay {
    client: usize,
    name: Arc<str>,
    since: Moment,
}

struct Standing {
    claim: u64,
    name: Arc<str>,
    /// When its join was sent first.
    joined: Moment,
    told: Option<u32>,
    granted_at: Moment,
    /// When the first user of it was granted it.
    used_since: Option<Moment>,
    is_excused: bool,
    /// Whether its place in line is recorded.
    stands: bool,
    /// Whether its own client took it out while it held.
    has_left: bool,
    /// When its client heard the answer to its join, and until when that keeps it by the client's clock.
    heard: Option<(Moment, Moment)>,
    /// Whether its client heard then that it waits.
    waits: bool,
    /// Whether it was left to the next of its client, and nobody knows which one that is.
    is_anyones: bool,
    /// Whether the store has it no more.
    is_gone: bool,
    /// Whether its client ended while it was cut off, and was told that the end is not confirmed. It then ends with its
    /// lease.
    is_abandoned: bool,
}

impl Record {
    pub(crate) fn new(time: Arc<Time>, plan: &Plan) -> Arc<Self> {
        let (longest_ttl, healed) = (plan.longest_ttl(), time.at_age(plan.healed()));
        let news_bound = match plan.are_pushes_reliable() {
            true => ms(plan.delay) * 6 + PROMPT,
            false => longest_ttl / 3 + longest_ttl / 10 + PROMPT,
        };
        let pauses = plan.clients.iter().map(|part| ms(part.longest_pause));
        let longest_pause = pauses.max().unwrap_or_default();
        let (answer, inner, lingers) = (ms(plan.delay) * 6, Mutex::default(), plan.lingers());
        Arc::new(Self { time, longest_ttl, healed, lingers, news_bound, longest_pause, answer, inner })
    }

    pub(crate) fn add_client(&self, clock: Arc<ClientClock>, part: &Part) {
        let mut inner = lock(&self.inner);
        let who = format!("client {}", inner.clients.len()).into();
        let (command_deadline, longest_pause) = (ms(part.command_deadline), ms(part.longest_pause));
        inner.clients.push(ClientState {
            who,
            clock,
            max_hold: part.max_hold.map(ms),
            linger: ms(part.linger),
            command_deadline,
            longest_pause,
            connect_deadline: command_deadline.min(self.longest_ttl),
            touched: Moment::START,
            cut_off: Moment::START,
            ending: Vec::new(),
        });
    }

    /// The events, and what was found while they happened.
    pub(crate) fn take(&self) -> (Vec<Event>, Vec<Finding>) {
        let mut inner = lock(&self.inner);
        (std::mem::take(&mut inner.events), std::mem::take(&mut inner.findings))
    }

    pub(crate) fn found(&self, check: &'static str, sentence: String) {
        lock(&self.inner).found(check, sentence);
    }

    pub(crate) fn note(&self, claim: u64, what: EventKind) {
        self.push(&mut lock(&self.inner), claim, what);
    }

    pub(crate) fn fault(&self, act: String) {
        self.push(&mut lock(&self.inner), 0, EventKind::Fault { act });
    }

    pub(crate) fn healed(&self) {
        self.push(&mut lock(&self.inner), 0, EventKind::Healed);
    }

    fn push(&self, inner: &mut Inner, claim: u64, what: EventKind) {
        let (who, name) = match inner.asked.get(&claim) {
            Some(asked) => (inner.clients[asked.client].who.clone(), asked.name.clone()),
            None => ("world".into(), "".into()),
        };
        inner.events.push(Event { at: self.time.age(), who, name, claim, what });
    }
}

impl Inner {
    fn found(&mut self, check: &'static str, sentence: String) {
        let after = self.events.len();
        self.findings.push(Finding { check, sentence, after });
    }

    fn number(&mut self, client: usize, name: &str, kind: Kind, weight: u64) -> u64 {
        self.claims += 1;
        let name = self.intern(name);
        self.asked.insert(self.claims, Asked { client, name, kind, weight, id: None, place: None });
        self.claims
    }

    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some((known, _)) = self.names.get_key_value(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone(), NameState::default());
        name
    }

    fn name_of(&self, claim: u64) -> Arc<str> {
        self.asked.get(&claim).map_or_else(|| "".into(), |asked| asked.name.clone())
    }

    fn state(&mut self, name: &Arc<str>) -> &mut NameState {
        self.names.entry(name.clone()).or_default()
    }
}
