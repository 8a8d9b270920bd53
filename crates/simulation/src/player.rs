//! A task of a client, which carries out its steps one after the other.
//!
//! What it asks for and what it lets go is recorded before the lock hears of it, because from then on others may be
//! granted; what it gets is recorded after.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_conformance::history::EventKind;
use tidelock_core::backend::{Clock, Sleep};
use tidelock_core::{
    Error, ErrorKind, Guard, Locks, Options, Owner, Reentrant, Result, Striped, WriteGuard, backend,
};

use tokio::task::JoinSet;

use crate::network::Network;
use crate::plan::{Action, End, How, Plan, Step, Taking, Tool, Wanted, ms, name_of};
use crate::record::{Record, on_behalf_of};
use crate::time::{ClientClock, Time, lock};

/// How many stripes a striped lock has.
const STRIPES: usize = 2;
/// How late something may be seen that is due by a client's clock.
const PROMPT: Duration = Duration::from_millis(100);

/// What the tasks of a world share.
pub(crate) struct Field {
    pub(crate) plan: Plan,
    pub(crate) time: Arc<Time>,
    pub(crate) record: Arc<Record>,
    pub(crate) network: Arc<Network>,
    pub(crate) clients: Vec<Client>,
    /// The tasks that have got a guard from another one.
    pub(crate) handed_over: Mutex<JoinSet<()>>,
}

/// A client of the world. When it is closed, another one takes its place, as when a process is started again.
pub(crate) struct Client {
    number: usize,
    locks: Mutex<Option<Arc<dyn Locks>>>,
    pub(crate) clock: Arc<ClientClock>,
}

impl Client {
    pub(crate) fn new(number: usize, network: &Network) -> Self {
        Self { number, locks: Mutex::default(), clock: network.clock(number) }
    }

    fn locks(&self, field: &Field) -> Result<Arc<dyn Locks>> {
        let mut locks = lock(&self.locks);
        if let Some(locks) = &*locks {
            return Ok(locks.clone());
        }
        let part = &field.plan.clients[self.number];
        let mut options = Options::new()
            .ttl(field.plan.ttl())
            .label(&format!("client {}", self.number))
            .command_deadline(ms(part.command_deadline))
            .connect_deadline(ms(part.command_deadline.min(field.plan.ttl)))
            .back_off(ms(part.first_pause), ms(part.longest_pause));
        options.max_hold = part.max_hold.map(ms);
        Ok(locks.insert(backend::attach(field.network.backend(self.number), options)?).clone())
    }

    /// Its locks are closed, or are being closed: whoever needs some takes others.
    fn replace(&self, closed: &Arc<dyn Locks>) {
        let mut locks = lock(&self.locks);
        if locks.as_ref().is_some_and(|locks| Arc::ptr_eq(locks, closed)) {
            drop(locks.take());
        }
    }

    /// Its locks, which nobody gets from now on.
    pub(crate) fn take(&self) -> Option<Arc<dyn Locks>> {
        lock(&self.locks).take()
    }
}

/// A guard of whichever kind.
enum AnyGuard {
    Plain(Guard),
    Write(WriteGuard),
    /// Two of one owner.
    Twice(tidelock_core::ReentrantGuard, Option<tidelock_core::ReentrantGuard>),
    Stripe(tidelock_core::StripeGuard),
}

impl AnyGuard {
    fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Write(guard) => guard,
            Self::Twice(guard, _) => guard,
            Self::Stripe(guard) => guard,
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Plain(guard) => guard.release().await.map(drop),
            Self::Write(guard) => guard.release().await.map(drop),
            Self::Twice(guard, inner) => {
                if let Some(inner) = inner {
                    inner.release().await?;
                }
                guard.release().await.map(drop)
            }
            Self::Stripe(guard) => guard.release().await.map(drop),
        }
    }
}

/// A hold, whose end is recorded before its guard is dropped.
struct Hold {
    claim: u64,
    record: Arc<Record>,
    guard: Option<AnyGuard>,
    /// A client with a lifetime of its own, which ends with the hold.
    #[expect(dead_code, reason = "it is dropped after the guard")]
    own: Option<Arc<dyn Locks>>,
}

impl Hold {
    fn new(field: &Field, claim: u64, guard: AnyGuard, own: Option<Arc<dyn Locks>>) -> Self {
        field.record.granted(claim, guard.guard());
        Self { claim, record: field.record.clone(), guard: Some(guard), own }
    }

    fn let_go(&mut self) -> Option<AnyGuard> {
        let guard = self.guard.take();
        if guard.is_some() {
            self.record.let_go(self.claim);
        }
        guard
    }

    async fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let was_held = self.record.let_go(self.claim);
        let released = guard.release().await;
        self.record.released(self.claim, was_held, &released);
        released
    }

    /// A writer becomes a reader; any other guard stays as it is.
    async fn downgrade(mut self) -> Result<Self> {
        match self.guard.take() {
            Some(AnyGuard::Write(writer)) => {
                self.record.lightens(self.claim);
                let mut downgrade = Box::pin(writer.downgrade());
                // If this is dropped, the end is recorded before the lock hears of it.
                let mut ending = Ending { claim: self.claim, record: self.record.clone(), is_settled: false };
                let reader = downgrade.as_mut().await?;
                ending.is_settled = true;
                self.record.lightened(self.claim);
                self.guard = Some(AnyGuard::Plain(reader));
            }
            other => self.guard = other,
        }
        Ok(self)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

/// A hold that ends if this is dropped before it is settled.
struct Ending {
    claim: u64,
    record: Arc<Record>,
    is_settled: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_settled {
            self.record.let_go(self.claim);
        }
    }
}

/// An acquire. What it sends is sent on behalf of its claim. Its fields are dropped in this order: the end of the wait is
/// recorded before the lock hears of it.
struct Asking<F> {
    asked: Asked,
    work: Pin<Box<F>>,
}

struct Asked {
    claims: Arc<[u64]>,
    record: Arc<Record>,
    is_settled: Cell<bool>,
}

impl Asked {
    fn settle<T>(&self, outcome: &Result<Option<T>>) {
        self.is_settled.set(true);
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) => self.end(&EventKind::Refused),
            Err(_) => self.end(&EventKind::Failed),
        }
    }

    fn end(&self, what: &EventKind) {
        self.claims.iter().for_each(|claim| self.record.not_granted(*claim, what.clone()));
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_settled.get() {
            self.end(&EventKind::Cancelled);
        }
    }
}

impl<T, F: Future<Output = Result<Option<T>>>> Future for Asking<F> {
    type Output = Result<Option<T>>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let claims = self.asked.claims.clone();
        let outcome = std::task::ready!(on_behalf_of(&claims, || self.work.as_mut().poll(cx)));
        self.asked.settle(&outcome);
        Poll::Ready(outcome)
    }
}

/// A task of a client.
#[derive(Clone)]
pub(crate) struct Player {
    pub(crate) field: Arc<Field>,
    pub(crate) client: usize,
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Player(client {})", self.client)
    }
}

impl Player {
    pub(crate) async fn play(self, steps: Vec<Step>) {
        for step in steps {
            if self.is_over() {
                return;
            }
            self.rest(ms(step.rest)).await;
            if self.is_over() {
                return;
            }
            match step.polls {
                Some(polls) => polled(polls, self.carry_out(&step)).await,
                None => self.carry_out(&step).await,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.field.time.age() >= ms(self.field.plan.ends)
    }

    fn client(&self) -> &Client {
        &self.field.clients[self.client]
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.client().clock.clone()
    }

    async fn rest(&self, pause: Duration) {
        let clock = self.clock();
        let at = clock.now() + pause;
        Sleep::until(&clock, at).await;
    }

    /// Holds for a while, and not for long once the world ends.
    async fn keep(&self, length: Duration) {
        let ends = ms(self.field.plan.ends).saturating_sub(self.field.time.age());
        self.rest(length.min(ends + ms(20))).await;
    }

    async fn carry_out(&self, step: &Step) {
        let locks = match self.client().locks(&self.field) {
            Ok(locks) => locks,
            Err(error) => {
                return self.field.record.found("errors", format!("a client cannot be made: {error}"));
            }
        };
        let done = match &step.action {
            Action::Take(taking) => self.take(&locks, taking).await,
            Action::Resize { name, to } => self.resize(&locks, &name_of(*name), *to).await,
            Action::Evict { name, count } => self.evict(&locks, &name_of(*name), *count).await,
            Action::Inspect { name } => locks.inspect(&name_of(*name)).await.map(drop),
            Action::Close { within } => self.close(&locks, within).await,
            Action::Drain { within } => self.end(&locks, ms(*within), true).await,
        };
        if let Err(error) = done {
            if error.kind() == ErrorKind::Closed {
                self.client().replace(&locks);
            }
            self.judge(&error, step);
        }
    }

    /// Whether the troubles, or the way a name is used, explain an error.
    fn judge(&self, error: &Error, step: &Step) {
        let plan = &self.field.plan;
        let command = ms(plan.clients[self.client].command_deadline);
        let is_well = self.field.record.is_well(self.client, (plan.ttl() * 3).max(plan.ttl() + command));
        let is_explained = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout => !is_well || self.has_little_time(step),
            ErrorKind::Lost
            | ErrorKind::Closed
            | ErrorKind::KindMismatch
            | ErrorKind::Conflict
            | ErrorKind::InvalidPermits => true,
            _ => false,
        };
        if !is_explained {
            self.field.record.found("errors", format!("nothing explains the error of {step:?}: {error}"));
        }
    }

    /// Whether the answer to a join may come too late for the patience of an acquire.
    fn has_little_time(&self, step: &Step) -> bool {
        match &step.action {
            // Each name gets what the ones before it have left.
            Action::Take(Taking { how: How::Within(_), tool: Tool::All(_), .. }) => true,
            // Whoever is evicted stands in line anew, for what is left of its time.
            Action::Take(Taking { how: How::Within(patience), name, .. }) => {
                self.field.plan.evicts(*name) || *patience < self.field.plan.delay * 20 + 100
            }
            _ => false,
        }
    }

    async fn resize(&self, locks: &Arc<dyn Locks>, name: &str, to: u32) -> Result<()> {
        let record = &self.field.record;
        let claim = record.resizes(self.client, name, to);
        let resized = match locks.semaphore(name, to) {
            Ok(semaphore) => semaphore.resize(to).await,
            Err(error) => Err(error),
        };
        match &resized {
            Ok(()) => record.note(claim, EventKind::Resized { to }),
            Err(error) if is_refusal(error.kind()) => record.note(claim, EventKind::Refused),
            Err(_) => {} // it may still be made
        }
        resized
    }

    async fn evict(&self, locks: &Arc<dyn Locks>, name: &str, count: usize) -> Result<()> {
        let line = locks.inspect(name).await?;
        for claim in line.claims.iter().take(count) {
            self.field.record.evicts(claim.id);
            locks.evict(name, claim.id).await?;
        }
        Ok(())
    }

    /// Several ask for the same end, and none waits for another.
    async fn close(&self, locks: &Arc<dyn Locks>, within: &[u64]) -> Result<()> {
        let mut closes = JoinSet::new();
        for within in within.iter().copied() {
            let (player, locks) = (self.clone(), locks.clone());
            closes.spawn(async move { player.end(&locks, ms(within), false).await });
        }
        let mut ended = Ok(());
        while let Some(closed) = closes.join_next().await {
            ended = closed.unwrap_or_else(|panic| Err(Error::new(ErrorKind::Protocol, panic.to_string())));
        }
        ended
    }

    /// Ends the client's locks, or drains them, for so long at most.
    async fn end(&self, locks: &Arc<dyn Locks>, within: Duration, drains: bool) -> Result<()> {
        let (record, clock) = (&self.field.record, self.clock());
        let longest =
            if drains { within + ms(self.field.plan.clients[self.client].command_deadline) } else { within };
        record.touch(self.client, self.field.time.now() + longest); // its holds are lost by this
        let began = clock.now();
        let ended = match drains {
            true => locks.drain_within(within).await.map(drop),
            false => locks.close_within(within).await,
        };
        self.judge_patience("an end", clock.now().since(began), longest);
        self.client().replace(locks);
        match ended {
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(()), // it had little time
            ended => ended,
        }
    }

    /// What has a limit ends in time, unless the machine slept.
    fn judge_patience(&self, what: &str, took: Duration, longest: Duration) {
        let clock = &self.client().clock;
        let slept = clock.suspended_until() + took + PROMPT > self.field.time.now();
        if took > longest + self.field.plan.ttl() / 10 + PROMPT && !slept {
            let sentence = format!("client {}: {what} took {took:?} and had {longest:?}", self.client);
            self.field.record.found("patience", sentence);
        }
    }

    async fn take(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<()> {
        if let Tool::All(others) = &taking.tool {
            return self.take_all(locks, taking, others).await;
        }
        let taken = match taking.tool {
            Tool::AnyStripe => self.acquire_any_stripe(locks, taking).await?,
            _ => self.acquire(locks, taking).await?,
        };
        match taken {
            Some(hold) => self.hold(hold, taking).await,
            None => Ok(()),
        }
    }

    async fn hold(&self, mut hold: Hold, taking: &Taking) -> Result<()> {
        if let Some(AnyGuard::Twice(_, inner)) = &mut hold.guard {
            drop(inner.take()); // the outer one still holds
        }
        match (&hold.guard, taking.runs) {
            (Some(guard), true) => guard.guard().run(self.keep(ms(taking.keep))).await?,
            _ => self.keep(ms(taking.keep)).await,
        }
        match taking.end {
            End::Release => hold.release().await,
            End::Drop => {
                drop(hold);
                Ok(())
            }
            End::Neglect(length) => {
                let mut release = Box::pin(hold.release());
                let _ = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                self.keep(ms(length)).await;
                Ok(())
            }
            End::HandOver(length) => {
                let player = self.clone();
                lock(&self.field.handed_over).spawn(async move {
                    player.keep(ms(length)).await;
                    drop(hold);
                });
                Ok(())
            }
            End::Downgrade(length) => {
                let hold = hold.downgrade().await?;
                self.keep(ms(length)).await;
                hold.release().await
            }
        }
    }

    async fn acquire(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<Option<Hold>> {
        let field = &self.field;
        let mut name = name_of(taking.name);
        let (mut own, mut locks) = (None, locks.clone());
        match taking.tool {
            Tool::Ttl(ttl) => {
                locks = locks.with_ttl(ms(ttl))?;
                own = Some(locks.clone());
            }
            Tool::Striped(key) => {
                let striped = Striped::new(&*locks, &name, STRIPES)?;
                name = format!("{name}#{}", striped.index_of(&key.to_le_bytes()));
            }
            _ => {}
        }
        let claim = field.record.ask(self.client, &name, taking.wanted.want());
        let asked =
            Asked { claims: [claim].into(), record: field.record.clone(), is_settled: Cell::new(false) };
        let work = Box::pin(self.work(locks, taking));
        let taken = self.as_patient(taking, &name, Asking { asked, work }).await?;
        Ok(taken.map(|guard| Hold::new(field, claim, guard, own)))
    }

    /// While it is under way it may stand in the line of any stripe.
    async fn acquire_any_stripe(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<Option<Hold>> {
        let (field, name) = (&self.field, name_of(taking.name));
        let striped = Striped::new(&**locks, &name, STRIPES)?;
        let names: Vec<String> = (0..STRIPES).map(|index| format!("{name}#{index}")).collect();
        let _busy: Vec<Busy> = names.iter().map(|name| Busy::new(&field.record, name)).collect();
        let ask = |name: &String| field.record.ask(self.client, name, taking.wanted.want());
        let claims: Arc<[u64]> = names.iter().map(ask).collect();
        let asked =
            Asked { claims: claims.clone(), record: field.record.clone(), is_settled: Cell::new(false) };
        let work = Box::pin(striped.any());
        let Some(guard) = self.as_patient(taking, &name, Asking { asked, work }).await? else {
            return Ok(None);
        };
        let taken = guard.index();
        for (_, claim) in claims.iter().enumerate().filter(|(index, _)| *index != taken) {
            field.record.not_granted(*claim, EventKind::Cancelled);
        }
        Ok(Some(Hold::new(field, claims[taken], AnyGuard::Stripe(guard), None)))
    }

    /// Waits in the way of the plan.
    async fn as_patient<T>(
        &self,
        taking: &Taking,
        name: &str,
        mut asking: impl Future<Output = Result<Option<T>>> + Unpin,
    ) -> Result<Option<T>> {
        let clock = self.clock();
        match taking.how {
            How::Wait | How::Try | How::Within(_) => {
                let began = clock.now();
                let taken = asking.await;
                if let How::Within(patience @ 1..) = taking.how // without patience it is a try
                    && !matches!(taking.tool, Tool::Striped(_) | Tool::AnyStripe)
                {
                    self.judge_patience("an acquire", clock.now().since(began), ms(patience));
                }
                taken
            }
            How::Polls(most, longest) => {
                let (mut polls, at) = (0, clock.now() + ms(longest));
                let mut sleep = Box::pin(Sleep::until(&clock, at));
                poll_fn(|cx| {
                    polls += 1;
                    if polls > most || sleep.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Ok(None));
                    }
                    Pin::new(&mut asking).poll(cx)
                })
                .await
            }
            How::Neglect(length) => {
                let _busy = Busy::new(&self.field.record, name);
                if let Poll::Ready(taken) =
                    Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()))
                {
                    return taken;
                }
                self.keep(ms(length)).await;
                Ok(None)
            }
        }
    }

    async fn work(&self, locks: Arc<dyn Locks>, taking: &Taking) -> Result<Option<AnyGuard>> {
        let name = name_of(taking.name);
        let plain = |guard: Option<Guard>| guard.map(AnyGuard::Plain);
        let write = |guard: Option<WriteGuard>| guard.map(AnyGuard::Write);
        match (&taking.tool, taking.wanted, taking.how) {
            (Tool::Striped(key), ..) => {
                let striped = Striped::new(&*locks, &name, STRIPES)?;
                striped.by_key(&key.to_le_bytes()).await.map(|guard| Some(AnyGuard::Stripe(guard)))
            }
            (Tool::Reentrant { at_once }, _, how) => {
                let (reentrant, owner) = (Reentrant::new(locks.mutex(&name)?), Owner::new());
                let patience = match how {
                    How::Within(patience) => ms(patience),
                    How::Try => {
                        return Ok(reentrant
                            .try_lock(&owner)
                            .await?
                            .map(|guard| AnyGuard::Twice(guard, None)));
                    }
                    _ => Duration::MAX,
                };
                if !at_once {
                    let Some(first) = reentrant.lock_within(&owner, patience).await? else { return Ok(None) };
                    let second = reentrant.try_lock(&owner).await?;
                    return Ok(Some(AnyGuard::Twice(first, second)));
                }
                let lock = || reentrant.lock_within(&owner, patience);
                Ok(match join(lock(), lock()).await? {
                    (Some(first), second) => Some(AnyGuard::Twice(first, second)),
                    (None, second) => second.map(|guard| AnyGuard::Twice(guard, None)),
                })
            }
            (_, Wanted::Lock, How::Try) => locks.mutex(&name)?.try_lock().await.map(plain),
            (_, Wanted::Lock, How::Within(patience)) => {
                locks.mutex(&name)?.lock_within(ms(patience)).await.map(plain)
            }
            (_, Wanted::Lock, _) => locks.mutex(&name)?.lock().await.map(Some).map(plain),
            (_, Wanted::Read, How::Try) => locks.rwlock(&name)?.try_read().await.map(plain),
            (_, Wanted::Read, How::Within(patience)) => {
                locks.rwlock(&name)?.read_within(ms(patience)).await.map(plain)
            }
            (_, Wanted::Read, _) => locks.rwlock(&name)?.read().await.map(Some).map(plain),
            (_, Wanted::Write, How::Try) => locks.rwlock(&name)?.try_write().await.map(write),
            (_, Wanted::Write, How::Within(patience)) => {
                locks.rwlock(&name)?.write_within(ms(patience)).await.map(write)
            }
            (_, Wanted::Write, _) => locks.rwlock(&name)?.write().await.map(Some).map(write),
            (_, Wanted::Permits(n, of), How::Try) => {
                locks.semaphore(&name, of)?.try_acquire(n).await.map(plain)
            }
            (_, Wanted::Permits(n, of), How::Within(patience)) => {
                locks.semaphore(&name, of)?.acquire_within(n, ms(patience)).await.map(plain)
            }
            (_, Wanted::Permits(n, of), _) => {
                locks.semaphore(&name, of)?.acquire(n).await.map(Some).map(plain)
            }
        }
    }

    /// Takes several mutexes together. While it is under way it may hold some of them.
    async fn take_all(&self, locks: &Arc<dyn Locks>, taking: &Taking, others: &[usize]) -> Result<()> {
        let field = &self.field;
        let names: Vec<String> =
            std::iter::once(&taking.name).chain(others).map(|name| name_of(*name)).collect();
        let claims: Arc<[u64]>;
        let taken = {
            let _busy: Vec<Busy> = names.iter().map(|name| Busy::new(&field.record, name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let ask = |name: &&str| field.record.ask(self.client, name, taking.wanted.want());
            claims = names.iter().map(ask).collect();
            let record = field.record.clone();
            let asked = Asked { claims: claims.clone(), record, is_settled: Cell::new(false) };
            let work = Box::pin(async {
                match taking.how {
                    How::Within(patience) => locks.lock_all_within(&names, ms(patience)).await,
                    _ => locks.lock_all(&names).await.map(Some),
                }
            });
            let mut work = Asking { asked, work };
            let clock = self.clock();
            let longest = if let How::Polls(_, longest) | How::Neglect(longest) = taking.how {
                Some(ms(longest))
            } else {
                None
            };
            let mut sleep = longest.map(|longest| Box::pin(Sleep::until(&clock, clock.now() + longest)));
            poll_fn(|cx| {
                if sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
                    return Poll::Ready(Ok(None));
                }
                Pin::new(&mut work).poll(cx)
            })
            .await?
        };
        let Some(guards) = taken else { return Ok(()) };
        for (claim, name) in claims.iter().zip(&names) {
            if let Some(guard) = guards.iter().find(|guard| guard.name().as_str() == name) {
                field.record.granted(*claim, guard);
            }
        }
        let endings = Endings { claims, record: field.record.clone() };
        self.keep(ms(taking.keep)).await;
        drop(endings);
        match taking.end {
            End::Release => guards.release().await.map(drop),
            _ => Ok(()),
        }
    }
}

/// Holds that end together.
struct Endings {
    claims: Arc<[u64]>,
    record: Arc<Record>,
}

impl Drop for Endings {
    fn drop(&mut self) {
        for claim in self.claims.iter() {
            self.record.let_go(*claim);
        }
    }
}

/// An acquire that may hold a name without showing it.
struct Busy {
    record: Arc<Record>,
    name: String,
}

impl Busy {
    fn new(record: &Arc<Record>, name: &str) -> Self {
        record.busy(name, true);
        Self { record: record.clone(), name: name.to_owned() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.record.busy(&self.name, false);
    }
}

/// Polls so often at most, and drops what is not done by then.
async fn polled(most: u32, work: impl Future<Output = ()>) {
    let (mut polls, mut work) = (0, Box::pin(work));
    poll_fn(|cx| {
        polls += 1;
        if polls > most { Poll::Ready(()) } else { work.as_mut().poll(cx) }
    })
    .await;
}

/// Both outcomes of futures that are polled together, or the first error.
async fn join<T>(
    first: impl Future<Output = Result<T>>,
    second: impl Future<Output = Result<T>>,
) -> Result<(T, T)> {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let (mut one, mut other) = (None, None);
    poll_fn(|cx| {
        if one.is_none()
            && let Poll::Ready(done) = first.as_mut().poll(cx)
        {
            one = Some(done?);
        }
        if other.is_none()
            && let Poll::Ready(done) = second.as_mut().poll(cx)
        {
            other = Some(done?);
        }
        match (one.take(), other.take()) {
            (Some(first), Some(second)) => Poll::Ready(Ok((first, second))),
            (first, second) => {
                (one, other) = (first, second);
                Poll::Pending
            }
        }
    })
    .await
}

/// Whether an error of that kind says that nothing was done.
fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidName, InvalidPermits, KindMismatch};
    matches!(kind, Conflict | InvalidName | InvalidPermits | KindMismatch)
}
