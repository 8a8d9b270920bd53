//! What happens in a world, as events that the suite's checker reads; and what can only be judged while it happens.
//!
//! A hold counts from when its user has the guard until the guard cannot be trusted any more by the client's own clock.
//! That is asked in a way that changes nothing, so the keeper must find out by itself.
//!
//! Judged here, beside the history: at the moment of a grant in the store, the holds that others trust must leave room for
//! it; a loss without a cause; a loss that the clock shows and nobody was told of; a turn that its waiter hears of late; a
//! line in which claims wait and nobody holds.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_conformance::Want;
use tidelock_conformance::history::{Event, EventKind};
use tidelock_core::backend::{Clock, Grant, Moment};
use tidelock_core::{ClaimId, Guard, Kind, Lost, Name, Result, SessionId};

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
}

pub(crate) struct Record {
    time: Arc<Time>,
    /// The longest lifetime of any claim of the world.
    longest_ttl: Duration,
    /// When the last trouble is over.
    healed: Moment,
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
    findings: Vec<Finding>,
}

struct ClientState {
    who: Arc<str>,
    clock: Arc<ClientClock>,
    max_hold: Option<Duration>,
    command_deadline: Duration,
    longest_pause: Duration,
    /// When something went wrong last that may cost it a hold.
    touched: Moment,
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

struct Standing {
    claim: u64,
    name: Arc<str>,
    told: Option<u32>,
    granted_at: Moment,
    is_excused: bool,
    /// Whether its place in line is recorded.
    stands: bool,
    /// Whether its own client took it out while it held.
    has_left: bool,
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
        let (answer, inner) = (ms(plan.delay) * 6, Mutex::default());
        Arc::new(Self { time, longest_ttl, healed, news_bound, longest_pause, answer, inner })
    }

    pub(crate) fn add_client(&self, clock: Arc<ClientClock>, part: &Part) {
        let mut inner = lock(&self.inner);
        let who = format!("client {}", inner.clients.len()).into();
        let (command_deadline, longest_pause) = (ms(part.command_deadline), ms(part.longest_pause));
        inner.clients.push(ClientState {
            who,
            clock,
            max_hold: part.max_hold.map(ms),
            command_deadline,
            longest_pause,
            touched: Moment::START,
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

    // What users do.

    pub(crate) fn ask(&self, client: usize, name: &str, want: Want) -> u64 {
        let mut inner = lock(&self.inner);
        let (kind, weight, capacity) = (want.kind(), want.weight(), want.capacity());
        let claim = inner.number(client, name, kind, weight.into());
        self.push(&mut inner, claim, EventKind::Asked { kind, weight, capacity });
        let name = inner.name_of(claim);
        inner.state(&name).asking.insert(claim);
        self.see_idle(&mut inner, &name);
        claim
    }

    pub(crate) fn granted(&self, claim: u64, guard: &Guard) {
        let mut inner = lock(&self.inner);
        let Some(asked) = inner.asked.get(&claim) else { return };
        let (client, name, kind, weight) = (asked.client, asked.name.clone(), asked.kind, asked.weight);
        self.note_losses(&mut inner, &name);
        let lost = guard.lost();
        let id = guard.claim();
        let standing = inner.standing.get(&id);
        let since = self.time.now();
        let granted = standing.map_or(since, |standing| standing.granted_at).min(since);
        let told = standing.as_ref().and_then(|standing| standing.told);
        let is_excused = standing.as_ref().is_some_and(|standing| standing.is_excused);
        inner.unheard.remove(&id);
        inner.state(&name).asking.remove(&claim);
        if !lost.is_trusted_at(inner.clients[client].clock.now()) {
            self.push(&mut inner, claim, EventKind::Failed); // lost before its user could rely on it
            return self.see_idle(&mut inner, &name);
        }
        let token = guard.token().get();
        self.push(&mut inner, claim, EventKind::Granted { token, told, id: id.to_string().into() });
        if is_excused {
            self.push(&mut inner, claim, EventKind::Overlap);
        }
        let held = Held { id, lost, since, granted, weight, kind, is_excused, is_lightening: false };
        inner.state(&name).holds.insert(claim, held);
        self.see_idle(&mut inner, &name);
    }

    /// The claim got nothing.
    pub(crate) fn not_granted(&self, claim: u64, what: EventKind) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        inner.state(&name).asking.remove(&claim);
        if let Some(id) = inner.asked.get(&claim).and_then(|asked| asked.id) {
            inner.unheard.remove(&id); // nobody waits for it any more
        }
        self.push(&mut inner, claim, what);
        self.see_idle(&mut inner, &name);
    }

    /// The user relies on the claim no more. Returns whether it could until now.
    pub(crate) fn let_go(&self, claim: u64) -> bool {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        self.note_losses(&mut inner, &name);
        let is_held = inner.state(&name).holds.remove(&claim).is_some();
        if is_held {
            self.push(&mut inner, claim, EventKind::LetGo);
        }
        self.see_idle(&mut inner, &name);
        is_held
    }

    /// A release has ended. It fails if the hold was lost before, and only then: not because of its own leave.
    pub(crate) fn released(&self, claim: u64, was_held: bool, outcome: &Result<()>) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        let id = inner.asked.get(&claim).and_then(|asked| asked.id);
        let standing = id.and_then(|id| inner.standing.get(&id));
        let has_left = standing.is_some_and(|standing| standing.has_left && !standing.is_excused);
        match outcome {
            Ok(()) if !was_held => {
                inner.found(
                    "released",
                    format!("on {name:?} claim {claim} was lost, and its release says that it was held"),
                );
            }
            Err(error) if was_held && has_left => {
                let sentence =
                    format!("on {name:?} claim {claim} was given back, and its release says: {error}");
                inner.found("released", sentence);
            }
            _ => {}
        }
    }

    /// A writer is about to become a reader.
    pub(crate) fn lightens(&self, claim: u64) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        self.note_losses(&mut inner, &name);
        if let Some(held) = inner.state(&name).holds.get_mut(&claim) {
            held.weight = 1;
            held.is_lightening = true;
            self.push(&mut inner, claim, EventKind::Lightened { weight: 1 });
        }
    }

    /// It is a reader.
    pub(crate) fn lightened(&self, claim: u64) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        if let Some(held) = inner.state(&name).holds.get_mut(&claim) {
            held.is_lightening = false;
        }
    }

    /// An acquire that may hold the name without showing it begins, or ends.
    pub(crate) fn busy(&self, name: &str, is_busy: bool) {
        let mut inner = lock(&self.inner);
        let name = inner.intern(name);
        let state = inner.state(&name);
        state.busy = if is_busy { state.busy + 1 } else { state.busy - 1 };
        self.see_idle(&mut inner, &name);
    }

    /// A client asks for another size.
    pub(crate) fn resizes(&self, client: usize, name: &str, to: u32) -> u64 {
        let mut inner = lock(&self.inner);
        let claim = inner.number(client, name, Kind::Semaphore, 0);
        self.push(&mut inner, claim, EventKind::Resizing { to });
        claim
    }

    pub(crate) fn note(&self, claim: u64, what: EventKind) {
        self.push(&mut lock(&self.inner), claim, what);
    }

    pub(crate) fn evicts(&self, id: ClaimId) {
        let mut inner = lock(&self.inner);
        self.excuse(&mut inner, |other| other == id);
        let id = id.to_string().into();
        self.push(&mut inner, 0, EventKind::Evicted { id });
        self.push(&mut inner, 0, EventKind::Fault { act: "a claim is evicted".into() });
        self.push(&mut inner, 0, EventKind::Healed);
    }

    // What goes wrong.

    pub(crate) fn fault(&self, act: String) {
        self.push(&mut lock(&self.inner), 0, EventKind::Fault { act });
    }

    pub(crate) fn healed(&self) {
        self.push(&mut lock(&self.inner), 0, EventKind::Healed);
    }

    /// Something goes wrong for a client until then.
    pub(crate) fn touch(&self, client: usize, until: Moment) {
        let touched = &mut lock(&self.inner).clients[client].touched;
        *touched = (*touched).max(until);
    }

    /// Something goes wrong with a name until then.
    pub(crate) fn touch_name(&self, name: &str, until: Moment) {
        let mut inner = lock(&self.inner);
        let name = inner.intern(name);
        let touched = &mut inner.state(&name).touched;
        *touched = (*touched).max(until);
    }

    /// Whether nothing has gone wrong for a client, or with any name, in the time before now.
    pub(crate) fn is_well(&self, client: usize, before: Duration) -> bool {
        let inner = lock(&self.inner);
        let of_names = inner.names.values().map(|name| name.touched).max();
        inner.clients[client].touched.max(of_names.unwrap_or(Moment::START)) + before < self.time.now()
    }

    /// The claims of these sessions may be somebody else's from now on, and their clients cannot know.
    pub(crate) fn overlap(&self, sessions: &[SessionId]) {
        let mut inner = lock(&self.inner);
        self.excuse(&mut inner, |id| sessions.contains(&id.session));
    }

    /// The same for one claim.
    pub(crate) fn overlap_of(&self, id: ClaimId) {
        self.excuse(&mut lock(&self.inner), |other| other == id);
    }

    fn excuse(&self, inner: &mut Inner, is_meant: impl Fn(ClaimId) -> bool) {
        for (id, standing) in &mut inner.standing {
            standing.is_excused |= is_meant(*id);
        }
        let mut excused = Vec::new();
        for standing in inner.standing.iter().filter(|(id, _)| is_meant(**id)).map(|(_, standing)| standing) {
            if inner.names.get(&standing.name).is_some_and(|name| name.asking.contains(&standing.claim)) {
                excused.push(standing.claim);
            }
        }
        for state in inner.names.values_mut() {
            for (claim, held) in state.holds.iter_mut().filter(|(_, held)| is_meant(held.id)) {
                held.is_excused = true;
                excused.push(*claim);
            }
        }
        for claim in excused {
            self.push(inner, claim, EventKind::Overlap);
        }
    }

    // What the store does.

    /// A join is sent, on behalf of the claim of the history that is being asked for.
    pub(crate) fn joins(&self, id: ClaimId, name: &str) {
        let mut inner = lock(&self.inner);
        let is_of_name = |claim: &u64| inner.asked.get(claim).is_some_and(|asked| &*asked.name == name);
        let claim = CURRENT.with_borrow(|claims| claims.iter().copied().find(is_of_name)).unwrap_or(0);
        if inner.standing.contains_key(&id) {
            return;
        }
        let before = inner.asked.get_mut(&claim).and_then(|asked| asked.id.replace(id));
        if let Some(before) = before {
            self.judge_place(&mut inner, claim, before);
            inner.unheard.remove(&before);
            // Its first claim has lost its place, which others may have by now.
            self.push(&mut inner, 0, EventKind::Fault { act: "a claim stands in line anew".into() });
            self.push(&mut inner, 0, EventKind::Healed);
        }
        let name = inner.intern(name);
        let standing = Standing {
            claim,
            name,
            told: None,
            granted_at: Moment::NEVER,
            is_excused: false,
            stands: false,
            has_left: false,
        };
        inner.standing.insert(id, standing);
    }

    /// A waiter stands in line anew. It had a place there, and lost it.
    fn judge_place(&self, inner: &mut Inner, claim: u64, before: ClaimId) {
        let Some(had) = inner.standing.get(&before).filter(|had| had.stands && !had.is_excused) else {
            return;
        };
        let Some(client) = inner.asked.get(&claim).and_then(|asked| inner.clients.get(asked.client)) else {
            return;
        };
        let of_name = inner.names.get(&had.name).map_or(Moment::START, |name| name.touched);
        let is_several = CURRENT.with_borrow(|claims| claims.len() > 1); // which may leave lines that they stand in
        if client.touched.max(of_name) + self.longest_ttl < self.time.now() && !is_several {
            let (who, name) = (&client.who, &had.name);
            let sentence = format!("on {name:?} {who} lost the place of claim {claim} although all was well");
            inner.found("place", sentence);
        }
    }

    /// The line of a claim.
    pub(crate) fn name_of(&self, id: ClaimId) -> Option<Name> {
        let inner = lock(&self.inner);
        inner.standing.get(&id).and_then(|standing| Name::new(&standing.name).ok())
    }

    /// The store has the claim in its line.
    pub(crate) fn stands(&self, id: ClaimId) {
        let mut inner = lock(&self.inner);
        let Some(standing) = inner.standing.get_mut(&id).filter(|standing| !standing.stands) else { return };
        standing.stands = true; // a repeated join is answered the same
        let claim = standing.claim;
        let name = inner.name_of(claim);
        if inner.state(&name).asking.contains(&claim) {
            self.push(&mut inner, claim, EventKind::Stands);
        }
    }

    /// The store grants the claim. From now on nobody else may trust what does not fit beside it.
    pub(crate) fn store_grants(&self, id: ClaimId, grant: Grant) {
        let mut inner = lock(&self.inner);
        let now = self.time.now();
        let Some(standing) = inner.standing.get_mut(&id) else { return };
        standing.told = Some(grant.capacity.get());
        let (claim, name, is_excused) = (standing.claim, standing.name.clone(), standing.is_excused);
        let is_known = standing.granted_at < Moment::NEVER;
        standing.granted_at = standing.granted_at.min(now);
        let is_asked = inner.state(&name).asking.contains(&claim);
        if is_asked {
            inner.unheard.insert(id);
        }
        // A claim that holds already is answered the same again, also after a shrink that leaves no room for it.
        if is_known || is_excused || inner.state(&name).holds.contains_key(&claim) {
            return;
        }
        let Some(asked) = inner.asked.get(&claim) else { return };
        let (kind, weight, capacity) = (asked.kind, asked.weight, u64::from(grant.capacity.get()));
        let Inner { names, clients, asked, .. } = &mut *inner;
        let Some(state) = names.get(&name) else { return };
        let trusted = state.holds.iter().filter(|(claim, held)| {
            let of = asked.get(claim).map(|asked| asked.client);
            let now = of.and_then(|client| clients.get(client)).map(|client| client.clock.now());
            !held.is_excused && now.is_some_and(|now| held.lost.is_trusted_at(now))
        });
        let (mut sum, mut others) = (weight, Vec::new());
        for (other, held) in trusted {
            sum += held.weight;
            if held.kind != kind {
                sum = u64::MAX / 2;
            }
            others.push(*other);
        }
        if sum > capacity && !others.is_empty() {
            let sentence = format!(
                "on {name:?} the store grants claim {claim}, while claims {others:?} are still trusted, which leave no room for it"
            );
            inner.found("exclusion", sentence);
        }
    }

    /// A leave of the claim has come to the store, and found it held or not.
    pub(crate) fn store_forgets(&self, id: ClaimId, by: SessionId, was_held: bool) {
        let mut inner = lock(&self.inner);
        inner.unheard.remove(&id);
        let standing = inner.standing.get(&id).map(|standing| (standing.claim, standing.name.clone()));
        if let Some((claim, name)) = standing
            && inner.state(&name).asking.contains(&claim)
        {
            self.push(
                &mut inner,
                0,
                EventKind::Fault { act: "a claim that is still asked for leaves".into() },
            );
            self.push(&mut inner, 0, EventKind::Healed);
        }
        if was_held
            && id.session == by
            && let Some(standing) = inner.standing.get_mut(&id)
        {
            standing.has_left = true;
        }
    }

    /// The store has ended a session: the places of its claims are gone.
    pub(crate) fn store_ends(&self, session: SessionId) {
        let mut inner = lock(&self.inner);
        inner.unheard.retain(|id| id.session != session);
        self.push(&mut inner, 0, EventKind::Fault { act: "a session ends in the store".into() });
        self.push(&mut inner, 0, EventKind::Healed);
    }

    // What is judged while it happens.

    /// Looks at everything that goes on.
    pub(crate) fn look(&self) {
        let mut inner = lock(&self.inner);
        let names: Vec<Arc<str>> = inner.names.keys().cloned().collect();
        for name in &names {
            self.note_losses(&mut inner, name);
            self.see_idle(&mut inner, name);
        }
        self.judge_news(&mut inner);
    }

    /// Records a loss for each hold that cannot be trusted any more.
    fn note_losses(&self, inner: &mut Inner, name: &Arc<str>) {
        let Inner { names, clients, asked, .. } = &mut *inner;
        let Some(state) = names.get(name) else { return };
        let mut lost = Vec::new();
        for (claim, held) in &state.holds {
            let Some(client) = asked.get(claim).and_then(|asked| clients.get(asked.client)) else { continue };
            let now = client.clock.now();
            let is_too_long = client
                .max_hold
                .is_some_and(|longest| self.time.now().since(held.since) > longest + longest / 400 + PROMPT);
            if is_too_long || !held.lost.is_trusted_at(now) {
                let late = now.since(held.lost.until());
                let slept = client.clock.suspended_until() + PROMPT > self.time.now();
                let is_over = is_too_long || late > PROMPT;
                lost.push((*claim, !held.lost.is_told() && is_over && !slept));
            }
        }
        for (claim, is_untold) in lost {
            if is_untold {
                let sentence =
                    format!("on {name:?} claim {claim} is over by its client's clock, and nobody is told");
                inner.found("told", sentence);
            }
            let Some(held) = inner.state(name).holds.remove(&claim) else { continue };
            self.push(inner, claim, EventKind::Lost);
            self.judge_loss(inner, name, claim, &held);
        }
    }

    fn judge_loss(&self, inner: &mut Inner, name: &Arc<str>, claim: u64, held: &Held) {
        let Some(client) = inner.asked.get(&claim).map(|asked| asked.client) else { return };
        let Some(state) = inner.clients.get(client) else { return };
        let now = self.time.now();
        let touched = state.touched.max(inner.names.get(name).map_or(Moment::START, |name| name.touched));
        let is_too_long = state.max_hold.is_some_and(|longest| now.since(held.granted) + PROMPT >= longest);
        let answer = if held.is_lightening { state.command_deadline } else { Duration::ZERO };
        if held.is_excused || is_too_long {
            return;
        }
        if touched + self.longest_ttl.max(answer) < now {
            let sentence = format!("on {name:?} {} lost claim {claim} although all was well", state.who);
            return inner.found("kept", sentence);
        }
        // Its time has run out, although enough was left of it when all was well again.
        let (until, healed) = (held.lost.until(), state.clock.shown_at(touched.max(held.since)));
        if until <= state.clock.now() && !held.is_lightening && healed + self.time_to_renew(state) < until {
            let sentence = format!(
                "on {name:?} {} lost claim {claim}, for whose renewal there were {:?} in which all was well",
                state.who,
                until.since(healed)
            );
            inner.found("kept", sentence);
        }
    }

    /// How long a client may take for a renewal after a trouble: the one that was under way has its time, and there is a
    /// pause before the next.
    fn time_to_renew(&self, client: &ClientState) -> Duration {
        let was_well = client.touched + self.longest_ttl < self.time.now(); // only the name was in trouble
        let under_way =
            if was_well { Duration::ZERO } else { client.command_deadline.min(self.longest_ttl / 3) };
        under_way + client.longest_pause.min(self.longest_ttl / 10) + self.answer + PROMPT
    }

    /// Each waiter hears of its turn within a third of the ttl and the time of an answer, also if no push comes.
    fn judge_news(&self, inner: &mut Inner) {
        let now = self.time.now();
        let bound = self.news_bound;
        let mut late = Vec::new();
        for id in &inner.unheard {
            let Some(standing) = inner.standing.get(id).filter(|standing| standing.granted_at + bound < now)
            else {
                continue;
            };
            let client = inner.asked.get(&standing.claim).and_then(|asked| inner.clients.get(asked.client));
            let of_name =
                inner.names.get(&standing.name).filter(|name| name.busy == 0).map(|name| name.touched);
            if of_name.is_none() {
                continue; // its waiter may be one that is not polled
            }
            let touched = client.map(|client| client.touched).max(of_name).unwrap_or(Moment::START);
            // After a trouble, a grant may wait for a renewal, or for the answer to a join that was lost.
            if touched + self.longest_ttl + bound < standing.granted_at {
                late.push((*id, standing.claim, standing.name.clone(), now.since(standing.granted_at)));
            }
        }
        for (id, claim, name, waited) in late {
            inner.unheard.remove(&id);
            let sentence = format!(
                "on {name:?} claim {claim} has its turn, and its waiter does not hear of it for {waited:?}"
            );
            inner.found("news", sentence);
        }
    }

    /// Notes since when claims wait while nobody holds, and whether that is too long.
    fn see_idle(&self, inner: &mut Inner, name: &Arc<str>) {
        let now = self.time.now();
        let bound = self.longest_ttl * 11 / 10 + self.longest_pause + PROMPT;
        let healed = self.healed;
        let Some(state) = inner.names.get_mut(name) else { return };
        let is_idle = !state.asking.is_empty() && state.holds.is_empty() && state.busy == 0;
        let since = state.idle_since;
        state.idle_since = is_idle.then(|| since.unwrap_or(now));
        let from = since.map(|since| since.max(healed));
        if let Some(from) = from.filter(|from| *from + bound < now) {
            state.idle_since = is_idle.then_some(now);
            let waiting: Vec<u64> = state.asking.iter().take(4).copied().collect();
            let sentence =
                format!("on {name:?} claims {waiting:?} wait for {:?} while nobody holds", now.since(from));
            inner.found("bounded", sentence);
        }
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
        self.findings.push(Finding { check, sentence });
    }

    fn number(&mut self, client: usize, name: &str, kind: Kind, weight: u64) -> u64 {
        self.claims += 1;
        let name = self.intern(name);
        self.asked.insert(self.claims, Asked { client, name, kind, weight, id: None });
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
