//! The store of a world, and what is between it and the clients.
//!
//! A request is a message that arrives later, whatever becomes of its caller, and its reply is another one. Each may be
//! lost, slow, late or overtaken, and so may what the store pushes. Behind it is the memory backend: one store, or one for
//! each shard.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_conformance::Dice;
use tidelock_core::backend::{
    Backend, Claim, Clock, Grant, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard,
    Sight, Signals,
};
use tidelock_core::{ClaimId, Error, ErrorKind, Line, Name, Options, Result, SessionId, Weight};
use tidelock_memory::Store;

use crate::plan::{Fault, Plan, ms, name_of};
use crate::record::Record;
use crate::time::{ClientClock, Time, lock};

/// How many claims that have joined are remembered for each client.
const REMEMBERED: usize = 64;

/// Everything between the clients and the store.
pub(crate) struct Network {
    time: Arc<Time>,
    record: Arc<Record>,
    stores: Vec<Store>,
    ttl: Duration,
    is_ordered: bool,
    is_hinting: bool,
    delay: Duration,
    lost_pushes: u64,
    doubled_pushes: u64,
    links: Vec<Mutex<Link>>,
    clocks: Vec<Arc<ClientClock>>,
    sky: Mutex<Sky>,
    /// Whether the store tells nobody of anything at the moment.
    is_mute: AtomicBool,
}

/// The way of one client to the store.
struct Link {
    dice: Dice,
    /// When the last message arrived or will arrive, there and back.
    last: [Moment; 2],
    sessions: Vec<Weak<Sessions>>,
    /// The claims that have joined last.
    joined: Vec<(Claim, Weak<Sessions>)>,
}

/// What is wrong at the moment.
#[derive(Default)]
struct Sky {
    faults: BTreeMap<usize, Fault>,
    /// Until when what is stopped now will be.
    ends: BTreeMap<usize, Moment>,
}

/// The sessions of one client's session: one in each shard.
struct Sessions {
    id: SessionId,
    options: Options,
    signals: Arc<dyn Signals>,
    in_shards: Vec<Mutex<InShard>>,
}

#[derive(Default)]
struct InShard {
    session: Option<Arc<dyn Session>>,
    /// Claims whose leave has come, and those that must not join any more.
    left: BTreeSet<ClaimId>,
    void: BTreeSet<ClaimId>,
}

/// A request: what it concerns, and how it may fare.
struct About {
    client: usize,
    name: Option<Name>,
    shard: u32,
    /// Whether it may be carried out once more, late, if its reply is lost.
    may_repeat: bool,
    /// After this time it does not arrive any more.
    keeps: Duration,
}

impl Network {
    pub(crate) fn new(plan: &Plan, time: &Arc<Time>, record: &Arc<Record>) -> Arc<Self> {
        let link = |client: usize| {
            Mutex::new(Link {
                dice: Dice::new(plan.seed, &format!("link {client}")),
                last: [Moment::START; 2],
                sessions: Vec::new(),
                joined: Vec::new(),
            })
        };
        let clocks: Vec<_> = plan.clients.iter().map(|part| time.client_clock(part.ppm)).collect();
        for (clock, part) in clocks.iter().zip(&plan.clients) {
            record.add_client(clock.clone(), part);
        }
        Arc::new(Self {
            time: time.clone(),
            record: record.clone(),
            stores: (0..plan.shards.max(1)).map(|_| time.store()).collect(),
            ttl: plan.ttl(),
            is_ordered: plan.is_ordered,
            is_hinting: plan.is_hinting,
            delay: ms(plan.delay),
            lost_pushes: plan.lost_pushes,
            doubled_pushes: plan.doubled_pushes,
            links: (0..plan.clients.len()).map(link).collect(),
            clocks,
            sky: Mutex::default(),
            is_mute: AtomicBool::new(false),
        })
    }

    /// The backend of one client.
    pub(crate) fn backend(self: &Arc<Self>, client: usize) -> Arc<dyn Backend> {
        let name = format!("simulated {client}");
        Arc::new(Wired { network: self.clone(), client, clock: self.clocks[client].clone(), name })
    }

    pub(crate) fn clock(&self, client: usize) -> Arc<ClientClock> {
        self.clocks[client].clone()
    }

    /// What the store still has: names, and the number of sessions.
    pub(crate) fn left(&self) -> (Vec<String>, usize) {
        let sessions = self.stores.iter().map(|store| store.faults().lose_sessions()).sum();
        let mut names = Vec::new();
        for store in &self.stores {
            let id = SessionId::from_bits(1);
            let Ok(session) = at_once(store.open(id, &Options::new(), Arc::new(Deaf))) else { continue };
            names
                .extend(at_once(session.names("", None)).unwrap_or_default().iter().map(ToString::to_string));
            let _ = at_once(session.close());
        }
        (names, sessions)
    }

    /// Whether any client still has a session.
    pub(crate) fn has_sessions(&self) -> bool {
        self.links.iter().any(|link| lock(link).sessions.iter().any(|sessions| sessions.strong_count() > 0))
    }

    // What goes wrong.

    /// A fault begins, and lasts until then.
    pub(crate) fn begin(self: &Arc<Self>, number: usize, fault: &Fault, until: Moment) {
        let all = 0..self.links.len();
        match fault {
            Fault::Rain { client, .. }
            | Fault::Slow { client, .. }
            | Fault::Refuse { client }
            | Fault::Cut { client, .. }
            | Fault::Deaf { client } => self.record.touch(*client, until),
            Fault::StallShard { .. } => all.for_each(|client| self.record.touch(client, until)),
            Fault::StallName { name } => self.record.touch_name(&name_of(*name), until),
            Fault::Suspend { client } => {
                self.record.touch(*client, until);
                self.clocks[*client].suspend(until);
            }
            Fault::EndSession { client, is_told } => self.end_sessions(Some(*client), *is_told),
            Fault::Forget { are_told } => self.end_sessions(None, *are_told),
            Fault::ForgetHolders { name } => self.forget_holders(&name_of(*name)),
            Fault::Revive { client, count } => self.revive(*client, *count),
            Fault::LosePushes { .. } => {}
            Fault::Reconnect { client } => self.reconnect(*client),
        }
        let mut sky = lock(&self.sky);
        sky.faults.insert(number, fault.clone());
        sky.ends.insert(number, until);
    }

    /// A fault is over.
    pub(crate) fn end(self: &Arc<Self>, number: usize) {
        let ended = {
            let mut sky = lock(&self.sky);
            sky.ends.remove(&number);
            sky.faults.remove(&number)
        };
        if let Some(Fault::Cut { client, are_pushes_lost: true }) = ended {
            self.reconnect(client);
        }
    }

    fn end_sessions(&self, client: Option<usize>, are_told: bool) {
        let now = self.time.now();
        for of in (0..self.links.len()).filter(|of| client.is_none_or(|client| client == *of)) {
            self.record.touch(of, now);
            let sessions: Vec<_> = lock(&self.links[of]).sessions.iter().filter_map(Weak::upgrade).collect();
            self.record.overlap(&sessions.iter().map(|sessions| sessions.id).collect::<Vec<_>>());
            for sessions in sessions {
                let label = &*sessions.options.label;
                self.is_mute.store(!are_told, Ordering::Relaxed);
                for store in &self.stores {
                    store.faults().lose_sessions_of(label);
                }
                self.is_mute.store(false, Ordering::Relaxed);
            }
        }
    }

    fn forget_holders(&self, name: &str) {
        let Ok(name) = Name::new(name) else { return };
        self.record.touch_name(name.as_str(), self.time.now());
        let shard = self.shard(&name);
        for link in &self.links {
            let all: Vec<_> = lock(link).sessions.iter().filter_map(Weak::upgrade).collect();
            for sessions in all {
                let Some(session) = sessions.in_shard(shard) else { continue };
                let Ok(line) = at_once(session.line(&name)) else { continue };
                let of_session = line.holders().filter(|claim| claim.id.session == sessions.id);
                for id in of_session.map(|claim| claim.id).collect::<Vec<_>>() {
                    self.record.overlap_of(id);
                    let _ = at_once(session.leave(&name, id, Leave::Done));
                }
            }
        }
    }

    /// Claims stand in line again, as on a server that has not heard of their leaves.
    fn revive(self: &Arc<Self>, client: usize, count: usize) {
        let joined: Vec<_> = lock(&self.links[client]).joined.iter().rev().take(count).cloned().collect();
        for (claim, sessions) in joined {
            let shard = self.shard(&claim.name);
            let Some(sessions) = sessions.upgrade() else { continue };
            if let Some(session) = sessions.in_shard(shard)
                && lock(&sessions.in_shards[shard as usize]).left.contains(&claim.id)
            {
                self.record.touch_name(claim.name.as_str(), self.time.now() + self.ttl);
                let _ = at_once(session.join(&claim, Patience::Wait));
            }
        }
        self.reconnect(client); // another server answers from now on
    }

    fn reconnect(self: &Arc<Self>, client: usize) {
        let all: Vec<_> = lock(&self.links[client]).sessions.iter().filter_map(Weak::upgrade).collect();
        for sessions in all {
            self.deliver(client, false, move || sessions.signals.look_everywhere());
        }
    }

    fn shard(&self, name: &Name) -> u32 {
        let sum: usize = name.as_bytes().iter().map(|byte| usize::from(*byte)).sum();
        u32::try_from(sum % self.stores.len()).unwrap_or(0)
    }

    fn is_sharded(&self) -> bool {
        self.stores.len() > 1
    }

    // Messages.

    /// Sends a request. It arrives, or not, whatever becomes of the caller; so does the answer.
    fn send<T: Send + 'static>(
        self: &Arc<Self>,
        about: About,
        work: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Answer<T> {
        let answer = Answer(Arc::new(Mutex::new((None, None))));
        let now = self.time.now();
        let client = about.client;
        let (mut requests, mut replies, mut are_told, mut is_refused) = (0, 0, false, false);
        for fault in lock(&self.sky).faults.values() {
            match fault {
                Fault::Rain { client: of, requests: first, replies: second, are_told: told }
                    if *of == client =>
                {
                    (requests, replies, are_told) = (*first, *second, *told);
                }
                Fault::Refuse { client: of } if *of == client => is_refused = true,
                _ => {}
            }
        }
        let (pause, is_lost, mut fate) = {
            let link = lock(&self.links[client]);
            let is_lost = link.dice.below(100) < requests;
            let fate = Fate {
                is_lost: link.dice.below(100) < replies,
                is_repeated: about.may_repeat && link.dice.one_in(2),
                is_told: are_told,
            };
            (self.pause(&link.dice, client), is_lost, fate)
        };
        fate.is_repeated &= fate.is_lost;
        if is_refused || is_lost {
            self.record.touch(client, now);
            if is_refused || are_told {
                let to = answer.clone();
                self.deliver(client, true, move || {
                    to.answer(Err(Error::new(ErrorKind::Unavailable, "the request was refused")));
                });
            }
            return answer;
        }
        let at = self.arrival(client, 0, now + pause);
        self.note_late(client, at);
        let request = Arc::new(Request { about, sent: now, work, answer: answer.clone(), fate });
        let network = self.clone();
        self.time.at(at, move || network.arrive(request));
        answer
    }

    /// A request arrives, unless something stands in its way.
    fn arrive<T, W>(self: Arc<Self>, request: Arc<Request<T, W>>)
    where
        T: Send + 'static,
        W: Fn() -> Result<T> + Send + Sync + 'static,
    {
        let About { client, may_repeat, keeps, .. } = request.about;
        let now = self.time.now();
        if let Some(until) = self.stopped_until(&request.about) {
            self.note_touched(&request.about, until);
            if request.sent + keeps > until {
                let at = self.arrival(client, 0, until + self.jitter(client));
                let network = self.clone();
                self.time.at(at, move || network.arrive(request));
            }
            return;
        }
        if request.sent + keeps <= now {
            return;
        }
        let reply = (request.work)();
        if request.fate.is_lost || self.is_deaf(client) {
            self.record.touch(client, now);
            if request.fate.is_repeated && may_repeat {
                let (network, again) = (self.clone(), request.clone());
                let late = now + self.jitter(client) * 50;
                // What arrives too late to be done is not on its way any more: it would keep a session from being dropped.
                if late < request.sent + keeps {
                    self.time.at(late, move || {
                        if network.stopped_until(&again.about).is_none() {
                            drop((again.work)());
                        }
                    });
                }
            }
            if request.fate.is_told {
                let to = request.answer.clone();
                self.deliver(client, true, move || {
                    to.answer(Err(Error::new(ErrorKind::Unavailable, "the connection was lost")));
                });
            }
            return;
        }
        let to = request.answer.clone();
        self.deliver(client, true, move || to.answer(reply));
    }

    /// Something is on its way to a client.
    fn deliver(self: &Arc<Self>, client: usize, is_reply: bool, news: impl FnOnce() + Send + 'static) {
        let pause = {
            let dice = &lock(&self.links[client]).dice;
            let overtakes = !is_reply && !self.is_ordered && dice.one_in(2);
            if overtakes { Duration::from_nanos(dice.below(10_000)) } else { self.pause(dice, client) }
        };
        let at = self.time.now() + pause;
        let at = if is_reply || self.is_ordered { self.arrival(client, 1, at) } else { at };
        if is_reply {
            self.note_late(client, at);
        }
        let network = self.clone();
        self.time.at(at, move || network.reach(client, Box::new(news)));
    }

    fn reach(self: Arc<Self>, client: usize, news: Box<dyn FnOnce() + Send>) {
        let until = self.cut_until(client).max(self.clocks[client].suspended_until());
        if until <= self.time.now() {
            return news();
        }
        self.record.touch(client, until);
        let at = self.arrival(client, 1, until + self.jitter(client) / 2);
        let network = self.clone();
        self.time.at(at, move || network.reach(client, news));
    }

    /// What the store tells a client unasked.
    fn push(self: &Arc<Self>, client: usize, news: impl Fn() + Send + Sync + 'static) {
        let is_cut_off = lock(&self.sky).faults.values().any(|fault| match fault {
            Fault::LosePushes { client: of } | Fault::Cut { client: of, are_pushes_lost: true } => {
                *of == client
            }
            _ => false,
        });
        let (is_lost, is_doubled) = {
            let dice = &lock(&self.links[client]).dice;
            (dice.below(100) < self.lost_pushes, dice.below(100) < self.doubled_pushes)
        };
        if is_lost || is_cut_off || self.is_mute.load(Ordering::Relaxed) {
            return;
        }
        let news = Arc::new(news);
        if is_doubled {
            let news = news.clone();
            self.deliver(client, false, move || news());
        }
        self.deliver(client, false, move || news());
    }

    fn pause(&self, dice: &Dice, client: usize) -> Duration {
        let slow = lock(&self.sky).faults.values().find_map(|fault| match fault {
            Fault::Slow { client: of, delay } if *of == client => Some(ms(*delay)),
            _ => None,
        });
        let longest = slow.unwrap_or(self.delay);
        Duration::from_nanos(10_000 + dice.below(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)))
    }

    fn jitter(&self, client: usize) -> Duration {
        let longest = self.delay * 2;
        Duration::from_nanos(
            lock(&self.links[client]).dice.below(u64::try_from(longest.as_nanos()).unwrap_or(1)),
        )
    }

    fn arrival(&self, client: usize, way: usize, at: Moment) -> Moment {
        if !self.is_ordered {
            return at;
        }
        let last = &mut lock(&self.links[client]).last[way];
        *last = at.max(*last);
        *last
    }

    /// Until when requests like this one are held up.
    fn stopped_until(&self, about: &About) -> Option<Moment> {
        let now = self.time.now();
        let is_in_the_way = |fault: &Fault| match fault {
            Fault::Cut { client, .. } => *client == about.client,
            Fault::StallShard { shard } => *shard == about.shard,
            Fault::StallName { name } => about.name.as_ref().is_some_and(|of| of.as_str() == name_of(*name)),
            _ => false,
        };
        self.until_end_of(is_in_the_way).filter(|until| *until > now)
    }

    fn cut_until(&self, client: usize) -> Moment {
        let cut = self.until_end_of(|fault| matches!(fault, Fault::Cut { client: of, .. } if *of == client));
        cut.unwrap_or(Moment::START)
    }

    fn is_deaf(&self, client: usize) -> bool {
        self.until_end_of(|fault| matches!(fault, Fault::Deaf { client: of } if *of == client)).is_some()
    }

    fn is_name_stalled(&self, name: &Name) -> bool {
        let is_it =
            |fault: &Fault| matches!(fault, Fault::StallName { name: of } if name.as_str() == name_of(*of));
        self.until_end_of(is_it).is_some()
    }

    fn until_end_of(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Moment> {
        let sky = lock(&self.sky);
        let meant = sky.faults.iter().filter(|(_, fault)| is_meant(fault));
        meant.filter_map(|(number, _)| sky.ends.get(number).copied()).max()
    }

    /// A message that takes long may cost a client its holds.
    fn note_late(&self, client: usize, at: Moment) {
        if at.since(self.time.now()) > self.ttl / 20 {
            self.record.touch(client, at);
        }
    }

    fn note_touched(&self, about: &About, until: Moment) {
        match &about.name {
            Some(name) if self.is_name_stalled(name) => self.record.touch_name(name.as_str(), until),
            _ => self.record.touch(about.client, until),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({} clients)", self.links.len())
    }
}

/// A request on its way.
struct Request<T, W> {
    about: About,
    sent: Moment,
    work: W,
    answer: Answer<T>,
    fate: Fate,
}

/// What becomes of a reply.
struct Fate {
    is_lost: bool,
    is_repeated: bool,
    is_told: bool,
}

/// An answer, when it has come.
struct Answer<T>(Arc<Mutex<Expected<T>>>);

/// An answer that has come, and who waits for it.
type Expected<T> = (Option<Result<T>>, Option<Waker>);

impl<T> Answer<T> {
    fn answer(&self, reply: Result<T>) {
        let waker = {
            let mut state = lock(&self.0);
            state.0 = Some(reply);
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = lock(&self.0);
        match state.0.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Sessions {
    fn in_shard(&self, shard: u32) -> Option<Arc<dyn Session>> {
        lock(&self.in_shards[shard as usize]).session.clone()
    }
}

/// A client's backend: the network.
struct Wired {
    network: Arc<Network>,
    client: usize,
    clock: Arc<ClientClock>,
    name: String,
}

impl fmt::Debug for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wired({})", self.client)
    }
}

#[async_trait]
impl Backend for Wired {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn store(&self) -> &str {
        &self.name
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let (network, client) = (self.network.clone(), self.client);
        let in_shards = (0..network.stores.len()).map(|_| Mutex::default()).collect();
        let sessions = Arc::new(Sessions { id, options: options.clone(), signals, in_shards });
        lock(&network.links[client]).sessions.push(Arc::downgrade(&sessions));
        let about = About { client, name: None, shard: 0, may_repeat: false, keeps: network.ttl };
        let (wires, opened) = (network.clone(), sessions.clone());
        let answer = network.send(about, move || wires.open_in(client, &opened, 0).map(drop));
        answer.await?;
        Ok(Arc::new(WiredSession { network, client, clock: self.clock.clone(), sessions }))
    }
}

impl Network {
    /// The session in a shard, which is opened if need be.
    fn open_in(
        self: &Arc<Self>,
        client: usize,
        sessions: &Arc<Sessions>,
        shard: u32,
    ) -> Result<Arc<dyn Session>> {
        let pushes =
            Pushes { network: self.clone(), client, session: sessions.id, to: sessions.signals.clone() };
        let store = &self.stores[shard as usize];
        let session = at_once(store.open(sessions.id, &sessions.options, Arc::new(pushes)))?;
        lock(&sessions.in_shards[shard as usize]).session = Some(session.clone());
        Ok(session)
    }

    /// In a cluster a claim lives by itself, so its lifetime counts from its join. In a store of ours it counts from the
    /// last renewal of the session there.
    fn keep_anew(&self, session: &dyn Session) -> Result<()> {
        if self.is_sharded() { at_once(session.renew(Shard(0), &[])).map(drop) } else { Ok(()) }
    }

    /// Does something in a client's session of a shard. In a cluster there are no sessions, only claims: one that is over
    /// is opened again where something is to be created.
    fn in_session<T>(
        &self,
        sessions: &Sessions,
        shard: u32,
        work: impl Fn(&dyn Session) -> Result<T>,
    ) -> Option<Result<T>> {
        let session = sessions.in_shard(shard);
        let done = session.map(|session| work(&*session));
        match done {
            Some(Err(error)) if error.kind() == ErrorKind::Lost && self.is_sharded() => None,
            None if !self.is_sharded() => Some(Err(Error::new(ErrorKind::Lost, "there is no such session"))),
            done => done,
        }
    }
}

/// A client's session.
struct WiredSession {
    network: Arc<Network>,
    client: usize,
    clock: Arc<ClientClock>,
    sessions: Arc<Sessions>,
}

impl fmt::Debug for WiredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WiredSession({}, {})", self.client, self.sessions.id)
    }
}

impl WiredSession {
    fn about(&self, name: Option<&Name>, may_repeat: bool) -> About {
        let shard = name.map_or(0, |name| self.network.shard(name));
        // A join that is under way for longer than that is not there any more: nobody remembers that it is void.
        let keeps = self.sessions.options.ttl.min(self.network.ttl) * 9 / 10;
        About { client: self.client, name: name.cloned(), shard, may_repeat, keeps }
    }

    /// Sends what is done in the session of a shard. `none` is the answer where there is no such session.
    fn ask<T: Send + 'static>(
        &self,
        about: About,
        work: impl Fn(&dyn Session) -> Result<T> + Send + Sync + 'static,
        none: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Answer<T> {
        let (network, sessions, shard) = (self.network.clone(), self.sessions.clone(), about.shard);
        self.network.send(about, move || network.in_session(&sessions, shard, &work).unwrap_or_else(&none))
    }
}

/// A moment of the store, on the clock of a client that asked at `sent`.
fn until(sent: Moment, now: Moment, until: Moment) -> Moment {
    sent + until.since(now)
}

#[async_trait]
impl Session for WiredSession {
    fn ttl(&self) -> Duration {
        self.sessions.options.ttl
    }

    fn shard(&self, name: &Name) -> Shard {
        Shard(self.network.shard(name))
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.network.record.joins(claim.id, claim.name.as_str());
        let sent = self.clock.now();
        let (network, sessions, client, claim) =
            (self.network.clone(), self.sessions.clone(), self.client, claim.clone());
        let about = self.about(Some(&claim.name), true);
        let shard = about.shard;
        let answer = self.network.send(about, move || {
            if lock(&sessions.in_shards[shard as usize]).void.contains(&claim.id) {
                return Ok(Place::Gone);
            }
            let join = |session: &dyn Session| {
                network.keep_anew(session)?;
                at_once(session.join(&claim, patience))
            };
            let place = match network.in_session(&sessions, shard, join) {
                Some(place) => place?,
                None => join(&*network.open_in(client, &sessions, shard)?)?,
            };
            {
                let joined = &mut lock(&network.links[client]).joined;
                joined.push((claim.clone(), Arc::downgrade(&sessions)));
                if joined.len() > REMEMBERED {
                    joined.remove(0);
                }
            }
            let has_left = lock(&sessions.in_shards[shard as usize]).left.contains(&claim.id);
            if has_left && matches!(place, Place::Held { .. } | Place::Waiting { .. }) {
                let sentence = format!(
                    "on {} claim {} has left, and a late join of it comes alive",
                    claim.name, claim.id
                );
                network.record.found("alive", sentence);
            }
            let now = network.time.now();
            Ok(match place {
                Place::Held { grant, until: end } => {
                    network.record.store_grants(claim.id, grant);
                    Place::Held { grant, until: until(sent, now, end) }
                }
                Place::Waiting { until: end, look_in } => {
                    network.record.stands(claim.id);
                    Place::Waiting { until: until(sent, now, end), look_in }
                }
                other => other,
            })
        });
        answer.await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let (name, waiting, ttl) = (name.clone(), waiting.to_vec(), self.ttl());
        let all = waiting.clone();
        let about = self.about(Some(&name), true);
        let none = move || Ok(Sight { held: Vec::new(), gone: all.clone(), look_in: ttl });
        self.ask(about, move |session| at_once(session.look(&name, &waiting)), none).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (name, network, sessions) = (name.clone(), self.network.clone(), self.sessions.clone());
        let about = self.about(Some(&name), true);
        let shard = about.shard;
        Box::pin(self.network.send(about, move || {
            if id.session == sessions.id {
                let mut in_shard = lock(&sessions.in_shards[shard as usize]);
                in_shard.left.insert(id);
                if how == Leave::Void {
                    in_shard.void.insert(id);
                }
            }
            let leave = |session: &dyn Session| at_once(session.leave(&name, id, how));
            let left = network.in_session(&sessions, shard, leave).unwrap_or(Ok(Left::Absent));
            let was_held = left.as_ref().is_ok_and(|left| *left == Left::Held);
            network.record.store_forgets(id, sessions.id, was_held);
            left
        }))
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        let claim = claim.clone();
        let about = self.about(Some(&claim.name), true);
        let id = claim.id;
        let none = move || Err(Error::not_in_line(id));
        self.ask(about, move |session| at_once(session.lighten(&claim, weight)), none).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let name = name.clone();
        let about = self.about(Some(&name), false);
        let (network, sessions, client, shard) =
            (self.network.clone(), self.sessions.clone(), self.client, about.shard);
        let answer = self.network.send(about, move || {
            let resize = |session: &dyn Session| at_once(session.resize(&name, from, to));
            match network.in_session(&sessions, shard, resize) {
                Some(resized) => resized,
                None => resize(&*network.open_in(client, &sessions, shard)?),
            }
        });
        answer.await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let sent = self.clock.now();
        let standing = standing.to_vec();
        let all: Vec<ClaimId> = standing.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        let about = About { shard: shard.0, ..self.about(None, true) };
        let network = self.network.clone();
        let renew = move |session: &dyn Session| {
            let mut renewal = at_once(session.renew(shard, &standing))?;
            renewal.until = until(sent, network.time.now(), renewal.until);
            if network.is_sharded() {
                renewal.strays.retain(|(name, _)| standing.iter().any(|(asked, _)| asked == name));
            }
            for (name, ids) in standing.iter().filter(|(name, _)| network.is_name_stalled(name)) {
                let is_of_name = |id: &ClaimId| ids.contains(id);
                renewal.gone.retain(|id| !is_of_name(id));
                renewal.waiting.retain(|id| !is_of_name(id));
                renewal.strays.retain(|(of, _)| of != name);
                renewal.unsure.extend(ids.iter().copied());
                renewal.missed.extend(ids.is_empty().then(|| name.clone()));
            }
            Ok(renewal)
        };
        let none = move || {
            let (unsure, missed, waiting, strays) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            Ok(Renewal { until: Moment::START, gone: all.clone(), unsure, missed, waiting, strays })
        };
        self.ask(about, renew, none).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        let name = name.clone();
        let about = self.about(Some(&name), false);
        self.ask(about, move |session| at_once(session.line(&name)), || Ok(Line::default())).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let about = self.about(None, false);
        let names = move |session: &dyn Session| at_once(session.names(&prefix, after.as_ref()));
        self.ask(about, names, || Ok(Vec::new())).await
    }

    async fn close(&self) -> Result<()> {
        let about = self.about(None, true);
        let (network, sessions) = (self.network.clone(), self.sessions.clone());
        let answer = self.network.send(about, move || {
            for shard in 0..network.stores.len() {
                let session = lock(&sessions.in_shards[shard]).session.clone();
                if let Some(session) = session {
                    at_once(session.close())?;
                }
            }
            network.record.store_ends(sessions.id);
            Ok(())
        });
        answer.await
    }
}

/// What the store tells a client, on its way.
struct Pushes {
    network: Arc<Network>,
    client: usize,
    session: SessionId,
    to: Arc<dyn Signals>,
}

impl fmt::Debug for Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pushes({})", self.client)
    }
}

impl Signals for Pushes {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.network.record.store_grants(id, grant);
        let to = self.to.clone();
        match self.network.record.name_of(id).filter(|_| self.network.is_hinting) {
            Some(name) => self.network.push(self.client, move || to.look(&name)),
            None => self.network.push(self.client, move || to.held(id, grant)),
        }
    }

    fn stray(&self, id: ClaimId) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.stray(id));
    }

    fn gone(&self, id: ClaimId) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.gone(id));
    }

    fn look(&self, name: &Name) {
        let (to, name) = (self.to.clone(), name.clone());
        self.network.push(self.client, move || to.look(&name));
    }

    fn look_everywhere(&self) {
        let to = self.to.clone();
        self.network.push(self.client, move || to.look_everywhere());
    }

    fn over(&self) {
        self.network.record.store_ends(self.session);
        if !self.network.is_sharded() {
            let to = self.to.clone();
            self.network.push(self.client, move || to.over());
        }
    }
}

/// Nobody listens.
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

/// The outcome of a call of the memory backend, which answers at once.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("the memory backend answers at once"),
    }
}
