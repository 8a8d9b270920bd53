//! The stage of a trial: a server of its own, numbered clients, time, random choices, and the history of it all.
//!
//! A trial never waits for the clock. It waits for a condition, with a bound: `until`. Bounds on real time are extended
//! by how long the machine itself stood still (`stalls.rs`). A trial lets time pass with `pass`,
//! and `drive` runs a call that needs time to pass meanwhile.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimInfo, ErrorKind, Kind, Locks, Options};

use crate::client::Client;
use crate::failure::{Failure, Outcome, ensure};
use crate::history::{EventKind, Recorder};
use crate::hold::Hold;
use crate::local_lines::LocalLines;
use crate::stalls::Stalls;
use crate::waiter::Waiter;
use crate::{
    Ability, Act, Belief, Child, Counts, Dice, Mishap, Seat, Server, Settings, Subject, Time, Want, Whom,
};

/// The number of steps in which `until` lets its bound pass.
const STEPS: u32 = 100;
/// How often `until` looks before it lets any time pass, and again after the whole bound: other tasks may be slow.
const LOOKS: u32 = 4;
const LAST_LOOKS: u32 = 400;
/// How many waiters of a crowd come together. With more, on a slow machine the joins of the last ones are not answered
/// within the deadline of a command; how many a store takes at once is not what a trial with a crowd is about.
const AT_ONCE: usize = 100;
/// The most time that passes between two polls of a driven call.
const DRIVEN: Duration = Duration::from_millis(20);

/// The number of the client that tries every name again at the end.
const LAST_CLIENT: usize = 999;

/// The label of the client that only observes. Faults for other clients do not affect it.
pub(crate) const WATCHER: &str = "watcher";

/// The stage that a trial plays on.
#[derive(Debug)]
pub struct Stage {
    server: Box<dyn Server>,
    subject: Arc<dyn Subject>,
    time: Arc<dyn Time>,
    stalls: Arc<Stalls>,
    recorder: Arc<Recorder>,
    watcher: Client,
    local_lines: LocalLines,
    linger: Duration,
    dice: Dice,
    is_deep: bool,
}

impl Stage {
    /// Sets a stage of a subject, for one trial.
    pub(crate) async fn set(
        subject: Arc<dyn Subject>,
        needs: &[Ability],
        dice: Dice,
        settings: &Settings,
    ) -> Outcome<Self> {
        let server = subject.server(needs).await?;
        let time = server.time();
        let stalls = Stalls::watched(&time);
        let recorder = Arc::new(Recorder::new(time.clone()));
        let options = Options::new().ttl(subject.ttl()).label(WATCHER);
        let watcher = Client::new(server.connect(options).await?, WATCHER, recorder.clone());
        let (local_lines, linger, is_deep) = (LocalLines::default(), settings.linger, settings.deep);
        Ok(Self { server, subject, time, stalls, recorder, watcher, local_lines, linger, dice, is_deep })
    }

    /// A new client, called `client number`.
    pub async fn client(&self, number: usize) -> Outcome<Client> {
        self.client_with(number, self.options()).await
    }

    /// A new client with its own options.
    pub async fn client_with(&self, number: usize, options: Options) -> Outcome<Client> {
        let (label, linger) = (format!("client {number}"), options.linger);
        let locks = self.server.connect(options.label(&label)).await?;
        Ok(self.played_by(locks, &label, linger))
    }

    /// A new client that knows only one server.
    pub async fn client_of(&self, seat: Seat, number: usize, options: Options) -> Outcome<Client> {
        let (label, linger) = (format!("client {number}"), options.linger);
        let locks = self.server.connect_to(seat, options.label(&label)).await?;
        Ok(self.played_by(locks, &label, linger))
    }

    fn played_by(&self, locks: Arc<dyn Locks>, label: &str, linger: Duration) -> Client {
        self.recorder.lingers(linger);
        self.local_lines.add(label, &locks, linger);
        Client::new(locks, label, self.recorder.clone())
    }

    /// New clients, from `client 0` on.
    pub async fn clients<const N: usize>(&self) -> Outcome<[Client; N]> {
        self.clients_with(self.options()).await
    }

    /// New clients with these options, from `client 0` on.
    pub async fn clients_with<const N: usize>(&self, options: Options) -> Outcome<[Client; N]> {
        let mut clients = Vec::new();
        for number in 0..N {
            clients.push(self.client_with(number, options.clone()).await?);
        }
        clients.try_into().map_err(|_| Failure::new("as many as were made"))
    }

    /// A new client in a process of its own, called `child number`.
    pub async fn child(&self, number: usize) -> Outcome<Child> {
        let label = format!("child {number}");
        self.recorder.lingers(self.linger);
        let command = self.server.program(self.options().label(&label))?;
        Child::start(command, &label, self.recorder.clone()).await
    }

    /// The options that every client starts from.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::new().ttl(self.subject.ttl()).linger(self.linger)
    }

    /// The same for clients whose tasks stand in the store's line themselves. Give them to all clients of a trial whose order
    /// matters: it is strict only among such, and the checks allow for one claim in line of each of the others.
    #[must_use]
    pub fn strict(&self) -> Options {
        self.options().linger(Duration::ZERO)
    }

    /// The client that only observes.
    #[must_use]
    pub fn watcher(&self) -> &Client {
        &self.watcher
    }

    /// The subject under trial.
    #[must_use]
    pub fn subject(&self) -> &dyn Subject {
        &*self.subject
    }

    /// Whether two clients may both believe that they hold under that mishap, as the subject has declared.
    #[must_use]
    pub fn may_overlap(&self, mishap: Mishap) -> bool {
        matches!(self.subject.belief(mishap), Belief::MayOverlap(_))
    }

    /// The server itself.
    #[must_use]
    pub fn server(&self) -> &dyn Server {
        &*self.server
    }

    /// Random choices.
    #[must_use]
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// `few`, or `many` in a deep run.
    #[must_use]
    pub fn many(&self, few: usize, many: usize) -> usize {
        if self.is_deep { many } else { few }
    }

    /// How long claims live.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.subject.ttl()
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.time.now()
    }

    /// The clock of this stage.
    #[must_use]
    pub fn time(&self) -> &Arc<dyn Time> {
        &self.time
    }

    /// Lets this much time pass while everything runs.
    pub async fn pass(&self, by: Duration) {
        self.time.pass(by).await;
    }

    /// Whether what began then took less than `bound` up to now. While the machine itself stood still, it may take
    /// longer.
    #[must_use]
    pub fn is_in_time(&self, began: Moment, bound: Duration) -> bool {
        self.stalls.excuse(began, self.now(), bound)
    }

    /// Waits until `holds` returns true, while at most `within` passes.
    pub async fn until(&self, within: Duration, what: &str, holds: impl AsyncFnMut() -> bool) -> Outcome {
        self.until_since(self.now(), within, what, holds).await
    }

    /// Waits until `holds` returns true, while at most `within` passes since `began`. While the machine itself stood
    /// still, it may take longer.
    async fn until_since(
        &self,
        began: Moment,
        within: Duration,
        what: &str,
        mut holds: impl AsyncFnMut() -> bool,
    ) -> Outcome {
        for _ in 0..LOOKS {
            if holds().await {
                return Ok(());
            }
            self.time.breathe(Duration::ZERO).await;
        }
        while self.is_in_time(began, within) {
            let step = match within.saturating_sub(self.now().since(began)) {
                Duration::ZERO => within / STEPS, // while the bound is extended
                left => left.min(within / STEPS),
            };
            self.time.breathe(step).await;
            if holds().await {
                return Ok(());
            }
        }
        for _ in 0..LAST_LOOKS {
            self.time.breathe(Duration::ZERO).await;
            if holds().await {
                return Ok(());
            }
        }
        let by = if within.is_zero() { "at once".to_owned() } else { format!("within {within:?}") };
        Err(Failure::new(format!("this did not happen {by}: {what}")))
    }

    /// Runs `work` to its end while time passes.
    pub async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.time.breathe(DRIVEN) => {}
            }
        }
    }

    /// Carries out an act on the server, and records it.
    pub async fn act(&self, act: Act) -> Outcome {
        match &act {
            Act::Heal => {}
            fault => self.recorder.note_for_all(EventKind::Fault { act: fault.to_string() }),
        }
        let is_heal = act == Act::Heal;
        self.server.act(act).await?;
        if is_heal {
            self.recorder.note_for_all(EventKind::Healed);
        }
        Ok(())
    }

    /// Records that current holders may go on believing that they hold, as the subject has declared.
    pub fn expect_overlap(&self) {
        self.recorder.note_for_all(EventKind::Overlap);
    }

    /// An operator takes a holder out of the line. This may change places in line.
    pub async fn evict(&self, operator: &Client, name: &str) -> Outcome {
        let line = operator.line(name).await?;
        let holder = line.holders().next().ok_or_else(|| Failure::new(format!("nobody holds {name:?}")))?;
        self.evict_one(operator, name, holder).await
    }

    /// The same for the first that waits.
    pub async fn evict_waiter(&self, operator: &Client, name: &str) -> Outcome {
        let line = operator.line(name).await?;
        let waiter =
            line.waiters().next().ok_or_else(|| Failure::new(format!("nobody waits for {name:?}")))?;
        self.evict_one(operator, name, waiter).await
    }

    async fn evict_one(&self, operator: &Client, name: &str, claim: &ClaimInfo) -> Outcome {
        let act = format!("{:?} is evicted from {name:?}", claim.label);
        self.recorder.note_for_all(EventKind::Fault { act });
        let was_there = operator.locks().evict(name, claim.id).await?;
        ensure!(was_there, "the line shows a claim, but the eviction did not find it");
        Ok(())
    }

    /// The commands and signals so far.
    pub async fn counts(&self) -> Outcome<Counts> {
        Ok(self.server.counts().await?)
    }

    /// A waiter that stands already, in the store's line or behind a claim of its client.
    pub async fn waiter(&self, client: &Client, name: &str, want: Want) -> Outcome<Waiter> {
        let before = self.waiting(name).await;
        let waiter = Waiter::spawn(client, name, want);
        self.until_waiting(name, before + 1).await?;
        self.note_standing(std::slice::from_ref(&waiter), name, want).await?;
        Ok(waiter)
    }

    /// This many waiters, in no known order among themselves.
    pub async fn waiters(
        &self,
        clients: &[Client],
        name: &str,
        want: Want,
        count: usize,
    ) -> Outcome<Vec<Waiter>> {
        let before = self.waiting(name).await;
        let (mut clients, mut waiters) = (clients.iter().cycle(), Vec::with_capacity(count));
        while waiters.len() < count {
            let some = clients.by_ref().take(AT_ONCE.min(count - waiters.len()));
            waiters.extend(some.map(|client| Waiter::spawn(client, name, want)));
            self.until_waiting(name, before + waiters.len()).await?;
        }
        self.note_standing(&waiters, name, want).await?;
        Ok(waiters)
    }

    /// How many wait: in the store's line, and behind claims of their own clients.
    pub async fn waiting(&self, name: &str) -> usize {
        let Ok(line) = self.watcher.line(name).await else { return 0 };
        self.local_lines.waiting(name, &line).await
    }

    /// The only waiter of its client, shown by the store's line, however many others come and go. It may have had its turn
    /// by then.
    pub async fn waiter_among_others(&self, client: &Client, name: &str, want: Want) -> Outcome<Waiter> {
        let waiter = Waiter::spawn(client, name, want);
        let shown = async || waiter.is_done() || self.note_if_shown(&waiter, name, want).await;
        self.until(self.ttl() / 3, "the line shows a waiter", shown).await?;
        Ok(waiter)
    }

    /// Waits until this many wait, in the store's line or behind claims of their own clients.
    pub async fn until_waiting(&self, name: &str, count: usize) -> Outcome {
        let what = format!("{count} wait for {name:?}");
        self.until(self.ttl() / 3, &what, async || self.waiting(name).await == count).await
    }

    /// Records that these wait. If clients may linger, the store's line says which of them have a claim there that waits
    /// for what they want.
    async fn note_standing(&self, waiters: &[Waiter], name: &str, want: Want) -> Outcome {
        let before = self.recorder.position();
        let line = match self.recorder.linger().is_zero() {
            true => None, // each waiter has a claim of its own
            false => Some(self.watcher.line(name).await?),
        };
        for waiter in waiters {
            let is_shown = line.as_ref().is_none_or(|line| waiter.is_shown(line, want));
            waiter.stands(&self.recorder, is_shown.then_some(before));
        }
        Ok(())
    }

    /// Records that this one waits, if the store's line shows that.
    async fn note_if_shown(&self, waiter: &Waiter, name: &str, want: Want) -> bool {
        let before = self.recorder.position();
        let is_shown = self.watcher.line(name).await.is_ok_and(|line| waiter.is_shown(&line, want));
        if is_shown {
            waiter.stands(&self.recorder, Some(before));
        }
        is_shown
    }

    /// Waits until the line is empty, for at most a second.
    pub async fn until_empty(&self, name: &str) -> Outcome {
        let what = format!("the line of {name:?} is empty");
        self.until(Duration::from_secs(1), &what, async || self.watcher.is_empty(name).await).await
    }

    /// Waits for a waiter whose turn has come or is about to come: at most a third of the ttl.
    pub async fn turn(&self, waiter: Waiter) -> Outcome<Hold> {
        self.turn_within(self.ttl() / 3, waiter).await
    }

    /// Waits for a waiter's turn while at most `within` passes.
    pub async fn turn_within(&self, within: Duration, waiter: Waiter) -> Outcome<Hold> {
        self.turn_since(self.now(), within, waiter).await
    }

    /// Waits for a waiter's turn while at most `within` passes since `began`.
    pub async fn turn_since(&self, began: Moment, within: Duration, waiter: Waiter) -> Outcome<Hold> {
        self.until_since(began, within, "a waiter gets its turn", async || waiter.is_done()).await?;
        Ok(waiter.hold().await?)
    }

    /// Ends a trial: everything is healed, and every name that was used must be usable again.
    pub(crate) async fn end(&self) -> Outcome {
        self.act(Act::Heal).await?;
        // It has no crowd, and without linger the order of what came before is judged as strictly as it was kept.
        let last = self.client_with(LAST_CLIENT, self.strict()).await?;
        for (name, want) in self.used() {
            let bound = self.ttl() + self.ttl() / 10;
            let by = self.now() + bound;
            let taken = loop {
                match self.drive(last.take_within(&name, want, bound)).await {
                    // A claim of another kind may still be leaving the line.
                    Err(error) if error.kind() == ErrorKind::KindMismatch && self.now() < by => {
                        self.time.breathe(DRIVEN).await;
                    }
                    other => break other?,
                }
            };
            ensure!(
                taken.is_some(),
                "{name:?} was still unusable a ttl and a tenth after everything was healed"
            );
        }
        let last = last.locks().clone();
        self.drive(last.close()).await?;
        Ok(())
    }

    /// Ends a trial that failed: other trials may use the same server.
    pub(crate) async fn mend(&self) {
        let _ = self.server.act(Act::Heal).await; // the trial's own failure is already known
    }

    pub(crate) fn stalls(&self) -> &Arc<Stalls> {
        &self.stalls
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Some of the names that were used, each with a want that excludes every other.
    fn used(&self) -> Vec<(String, Want)> {
        const FEW: usize = 12;
        let mut used: Vec<(String, Want)> = Vec::new();
        for event in self.recorder.events() {
            if let EventKind::Asked { kind, capacity, .. } = event.what
                && used.len() < FEW
                && !used.iter().any(|(name, _)| **name == *event.name)
                && tidelock_core::Name::new(&event.name).is_ok()
            {
                let want = match kind {
                    Kind::Mutex => Want::Lock,
                    Kind::RwLock => Want::Write,
                    _ => Want::Permits(1, capacity),
                };
                used.push((event.name.to_string(), want));
            }
        }
        used
    }
}

/// The client with that number, for an act.
pub(crate) fn client(number: usize) -> Whom {
    Whom::Client(format!("client {number}"))
}
