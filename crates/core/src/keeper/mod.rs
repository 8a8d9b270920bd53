//! The keeper: one task for each session, on a thread of Tidelock's own.
//!
//! Every third of the ttl it renews all standing claims, with one request for each shard. A renewal that failed puts
//! the claims of its shard in jeopardy and is retried after a short pause. If less than a third of the ttl would be
//! left at the next renewal (because an answer came late or proved little), the shard is renewed at once.
//!
//! The keeper also declares lost, by this client's own clock, what could not be renewed in time; looks for the
//! waiters; and sees every leave through. It ends, and closes the session, when the last handle and the last guard
//! are gone.

mod close_result;
mod leaving;
mod log;
mod renewing;
mod repeated_leave;
mod request;
mod runtime;
mod timing;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(crate) use leaving::Leaving;
pub(crate) use request::Request;
pub(crate) use runtime::handle;
pub(crate) use timing::{renewal_deadline, ttl_of};

use self::close_result::close_result;
use self::renewing::{Again, Renewing};
use crate::at_once::at_once;
use crate::backend::{Clock, Left, Moment, Renewal, Reply, Session, Shard, Sight, Signals, Sleep};
use crate::deadline;
use crate::limit::Limit;
use crate::registry::{DueLook, EarlyRenewal, Entry, Loss, Registry};
use crate::{ClaimId, ErrorKind, Name, Options, Result};

pub(crate) struct Keeper {
    session: Arc<dyn Session>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    options: Arc<Options>,
    tasks: JoinSet<Done>,
    shards: BTreeMap<Shard, Renewing>,
    /// When everything is to be renewed next, and when it was last.
    renew_at: Moment,
    renewed_at: Moment,
    /// When the opening of the session was requested.
    opened_at: Moment,
    /// Until when renewals also ask about lines that claims have left lately: an unknown stray may stand there.
    seeks_strays_until: Moment,
    /// Leaves that are not confirmed yet.
    leaving: BTreeMap<ClaimId, Arc<Entry>>,
    /// The alarm that woke the keeper, or the first one that will. A test that turns the clock by hand waits
    /// until this alarm is dropped, as the sign that all work is done. So one exists from the beginning, and it is
    /// dropped only when the next one is set.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// The outcome of one of the keeper's tasks.
enum Done {
    Renewed { shard: Shard, round: u64, asked: Vec<(Name, Vec<ClaimId>)>, answer: Result<Renewal> },
    Looked { name: Name, answer: Result<Sight> },
    Compared { answer: Result<Vec<ClaimId>> },
    Left(ClaimId),
    Logged,
}

impl Keeper {
    /// The keeper of a session whose opening was requested at `asked`.
    pub(crate) fn new(
        session: Arc<dyn Session>,
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
        options: Arc<Options>,
        asked: Moment,
    ) -> Self {
        // The session's lease may count from before it was opened, and opening may have taken long.
        let renew_at = asked + ttl_of(&*session) / 3;
        registry.wake_ups.keeper_renews_at(renew_at);
        let (tasks, shards, leaving) = (JoinSet::new(), BTreeMap::new(), BTreeMap::new());
        let alarm = Some(set_alarm(&clock, renew_at));
        let (renewed_at, opened_at, seeks_strays_until) = (asked, asked, Moment::START);
        Self {
            session,
            registry,
            clock,
            options,
            tasks,
            shards,
            renew_at,
            renewed_at,
            opened_at,
            seeks_strays_until,
            leaving,
            alarm,
        }
    }

    /// Runs until the other side of `requests` is gone or a close is requested.
    pub(crate) async fn run(mut self, mut requests: UnboundedReceiver<Request>) {
        loop {
            let wake = self.do_what_is_due();
            let mut sleep = set_alarm(&self.clock, wake);
            drop(self.alarm.take());
            let closing = loop {
                tokio::select! {
                    request = requests.recv() => match request {
                        Some(Request::SeeThrough { entry, reply }) => self.see_through(entry, reply),
                        Some(Request::Close { by, done }) => break Some((by, Some(done))),
                        None => break Some((Limit::after(ttl_of(&*self.session), &self.clock), None)),
                    },
                    Some(done) = self.tasks.join_next() => {
                        let done = done.unwrap_or_else(|panic| Done::from_panic(&panic, &self.registry));
                        if self.note(done) {
                            break None;
                        }
                    }
                    () = self.registry.wake_ups.nudged() => break None,
                    () = &mut sleep => break None,
                }
            };
            if let Some((by, done)) = closing {
                // Nobody deals with it any more, and a test that turns the clock by hand must not wait for it.
                drop(sleep);
                return self.close(by, done).await;
            }
            self.alarm = Some(sleep);
        }
    }

    /// Does all work that is due, and returns when to come back.
    fn do_what_is_due(&mut self) -> Moment {
        if self.registry.is_over() {
            return Moment::NEVER;
        }
        self.registry.wake_ups.keeper_is_awake();
        let now = self.clock.now();
        for entry in self.registry.overdue(now) {
            self.lose(entry, now);
        }
        let strays = self.registry.strays.take();
        self.give_back(strays);
        if self.registry.strays.take_unknown() {
            self.seeks_strays_until = now + ttl_of(&*self.session) / 3; // a renewal under way is no hindrance
            // A renewal asks about all claims, so there is a pause between two for the sake of strays.
            self.renew_at = self.renew_at.min(self.renewed_at + ttl_of(&*self.session) / 192).max(now);
        }
        let early = self.registry.wake_ups.take_early_renewal();
        if now >= self.renew_at || early == Some(EarlyRenewal::All) {
            self.renew_at = now + ttl_of(&*self.session) / 3;
            self.renewed_at = now;
            self.registry.wake_ups.keeper_renews_at(self.renew_at);
            for entry in self.registry.abandoned_joins(now) {
                self.lose(entry, now);
            }
            for (entry, leave) in self.registry.abandoned_leaves(now) {
                self.see_through(entry, Some(leave));
            }
            self.renew(|_| true);
        } else if self.again_at() <= now || early.is_some() {
            self.renew(|shard| shard.again.as_ref().is_some_and(|again| again.at <= now));
        }
        for look in self.registry.due_looks(now) {
            self.look(look);
        }
        self.registry.keeper_sleeps_until(self.renew_at.min(self.again_at()))
    }

    /// When the first shard is due for a retry, before the next renewal of all.
    fn again_at(&self) -> Moment {
        let resting = self.shards.values().filter(|shard| !shard.under_way);
        resting.filter_map(|shard| shard.again.as_ref()).map(|again| again.at).min().unwrap_or(Moment::NEVER)
    }

    /// A claim that could not be renewed in time is lost, whatever the store thinks. It is given back there too.
    fn lose(&mut self, entry: Arc<Entry>, now: Moment) {
        if entry.lose(entry.why_overdue(now)).is_some() {
            self.see_through(entry, None);
        }
    }

    /// Renews the shards that `which` picks, except those with a renewal under way.
    fn renew(&mut self, which: impl Fn(&Renewing) -> bool) {
        let round = self.registry.begin_round();
        let mut by_shard = self.registry.claims_by_shard(|name| self.session.shard(name));
        if self.clock.now() < self.seeks_strays_until {
            self.registry.add_departed_lines(&mut by_shard, |name| self.session.shard(name));
        }
        // A session that needs its own renewals is renewed with nobody in line too.
        by_shard.entry(Shard(0)).or_default();
        // A shard without claims has nothing to retry.
        self.shards.retain(|shard, renewing| renewing.under_way || by_shard.contains_key(shard));
        for (shard, mut asked) in by_shard {
            let renewing = self.shards.entry(shard).or_default();
            // The claim's deadline was learnt late, or it was in another shard when its renewal failed
            // and has moved here.
            let needs_it = || renewing.again.is_none() && self.registry.is_any_in_need(&asked);
            if renewing.under_way {
                renewing.once_more |= which(renewing);
                continue;
            }
            if !(which(renewing) || needs_it()) {
                continue;
            }
            renewing.begin();
            let (session, clock) = (self.session.clone(), self.clock.clone());
            let within = renewal_deadline(&self.options, &*session);
            self.start(async move {
                let answer = deadline::answer_within(&clock, within, session.renew(shard, &asked)).await;
                asked.retain(|(_, ids)| !ids.is_empty());
                Done::Renewed { shard, round, asked, answer }
            });
        }
    }

    fn look(&mut self, look: DueLook) {
        let (session, clock) = (self.session.clone(), self.clock.clone());
        let within = renewal_deadline(&self.options, &*session);
        if let Some(waited) = look.warn {
            let (session, clock) = (session.clone(), clock.clone());
            let (name, own) = (look.name.clone(), self.registry.session);
            self.start(async move {
                let line = deadline::answer_within(&clock, within, session.line(&name)).await;
                log::long_wait(&name, waited, line, own);
                Done::Logged
            });
        }
        self.start(async move {
            let answer =
                deadline::answer_within(&clock, within, session.look(&look.name, &look.waiting)).await;
            Done::Looked { name: look.name, answer }
        });
    }

    /// Asks whether these claims hold in the store as this client believes. A late join may have arrived after
    /// the store forgot the claim; the claim then stands there anew, and a renewal cannot tell the difference.
    fn compare(&mut self, asked: &[(Name, Vec<ClaimId>)]) {
        for (name, doubtful) in self.registry.doubtful(asked) {
            let (session, clock) = (self.session.clone(), self.clock.clone());
            let within = renewal_deadline(&self.options, &*session);
            self.start(async move {
                let not_held = session.not_held(&name, &doubtful);
                Done::Compared { answer: deadline::answer_within(&clock, within, not_held).await }
            });
        }
    }

    fn see_through(&mut self, entry: Arc<Entry>, reply: Option<Reply<Left>>) {
        let id = entry.claim.id;
        entry.leaves_by(entry.until().max(self.clock.now() + ttl_of(&*self.session)));
        self.leaving.insert(id, entry.clone());
        let (session, registry) = (self.session.clone(), self.registry.clone());
        let (clock, options) = (self.clock.clone(), self.options.clone());
        self.start(async move {
            repeated_leave::until_confirmed(&*session, &registry, &clock, &options, &entry, reply).await;
            Done::Left(id)
        });
    }

    /// Polls the work once and spawns a task only if it waits: most in-memory stores answer at once.
    fn start(&mut self, work: impl Future<Output = Done> + Send + 'static) {
        let mut work = Box::pin(work);
        match at_once(work.as_mut()) {
            Some(done) => drop(self.note(done)),
            None => drop(self.tasks.spawn(work)),
        }
    }

    /// Takes in the outcome of a task. Returns whether that may have changed what is due.
    fn note(&mut self, done: Done) -> bool {
        match done {
            Done::Renewed { shard, round, asked, answer } => self.renewed(shard, round, &asked, answer),
            Done::Looked { answer: Err(error), .. } | Done::Compared { answer: Err(error) }
                if error.kind() == ErrorKind::Lost =>
            {
                self.registry.over();
            }
            Done::Looked { name, answer } => {
                let soon =
                    || Sight { held: Vec::new(), gone: Vec::new(), look_in: self.options.longest_pause };
                self.registry.saw(&name, answer.unwrap_or_else(|_| soon()));
            }
            // After an error these claims are compared after the next renewal.
            Done::Compared { answer } => self.lose_unheld(&answer.unwrap_or_default()),
            Done::Left(id) => {
                self.leaving.remove(&id);
                self.registry.remove(id.number);
                return false;
            }
            Done::Logged => return false,
        }
        true
    }

    fn renewed(&mut self, shard: Shard, round: u64, asked: &[(Name, Vec<ClaimId>)], answer: Result<Renewal>) {
        let now = self.clock.now();
        self.note_ttl(now);
        let renewing = self.shards.entry(shard).or_default();
        renewing.under_way = false;
        let end = || self.registry.first_end(shard, asked);
        match answer {
            Ok(renewal) => {
                // If the store is unsure of some claims, ask about them again, and before all others.
                // Soon, unless the first claim of the request is among the unsure: the store may
                // stumble over it each time.
                let is_first_unsure =
                    |(_, ids): &(Name, Vec<ClaimId>)| ids.iter().any(|id| renewal.unsure.contains(id));
                let keeps_something = !asked.is_empty() || renewal.until > Moment::START;
                let is_short = keeps_something && self.registry.is_short(renewal.until);
                let is_enough = renewal.unsure.is_empty() && !is_short;
                if is_enough || !(renewal.unsure.is_empty() || asked.first().is_some_and(is_first_unsure)) {
                    renewing.again = None;
                }
                if !is_enough {
                    renewing.ask_again(now, end(), &self.options, &*self.session);
                }
                let works_again = renewal.unsure.is_empty() && std::mem::take(&mut renewing.is_failing);
                // First, so that the renewal does not extend them.
                self.lose_unheld(&self.registry.held_before(round, &renewal.waiting));
                self.registry.renewed(shard, asked, &renewal);
                // Without claims perhaps nothing was sent.
                if works_again && !asked.is_empty() {
                    log::renewed_again(&self.registry.standing(asked));
                }
                self.compare(asked);
                self.give_back(renewal.strays);
            }
            Err(error) if error.kind() == ErrorKind::Lost => self.registry.over(),
            Err(error) => {
                let is_news = !asked.is_empty() && !std::mem::replace(&mut renewing.is_failing, true);
                renewing.ask_again(now, end(), &self.options, &*self.session);
                log::renewal_failed(shard, &self.registry.standing(asked), &error, is_news);
                self.registry.in_jeopardy(asked);
            }
        }
        let renewing = self.shards.entry(shard).or_default();
        // After a failure it is renewed again anyway, after a pause.
        if std::mem::take(&mut renewing.once_more) && renewing.again.is_none() {
            renewing.again = Some(Again { at: now, pause: self.options.first_pause });
        }
    }

    /// A claim that the store does not have as believed is lost. Whatever stands there instead is given back.
    fn lose_unheld(&mut self, claims: &[ClaimId]) {
        for entry in self.registry.find(claims.iter()) {
            if entry.lose(Loss::NotHeld).is_some() {
                self.see_through(entry, None);
            }
        }
    }

    /// A store may grant another ttl after a reconnect.
    fn note_ttl(&mut self, now: Moment) {
        let ttl = ttl_of(&*self.session);
        self.registry.set_ttl(ttl);
        self.renew_at = self.renew_at.min(now + ttl / 3);
        self.registry.wake_ups.keeper_renews_at(self.renew_at);
    }

    /// Gives back claims of this session that the store has and this client does not know.
    fn give_back(&mut self, strays: Vec<(Name, ClaimId)>) {
        for (name, id) in strays {
            if !self.registry.knows(id) && !self.leaving.contains_key(&id) {
                self.see_through(Arc::new(Entry::stray(id, name)), None);
            }
        }
    }

    /// Gives everything back, waits for the store to confirm it, and ends the session.
    async fn close(mut self, by: Limit, done: Option<oneshot::Sender<Result<()>>>) {
        let clock = self.clock.clone();
        let leaves_by = by.halved(&clock); // the rest is for the end of the session
        self.registry.begin_closing();
        for entry in self.registry.lose_all(Loss::Closed) {
            self.see_through(entry, None);
        }
        let leaves = async {
            loop {
                let strays = self.registry.strays.take(); // this client stops to renew, but others wait behind them
                self.give_back(strays);
                if self.leaving.is_empty() {
                    break;
                }
                tokio::select! {
                    done = self.tasks.join_next() => match done {
                        Some(Ok(Done::Left(id))) => drop(self.leaving.remove(&id)),
                        Some(Ok(Done::Renewed { answer: Ok(renewal), .. })) => self.give_back(renewal.strays),
                        Some(_) => {}
                        None => break,
                    },
                    () = self.registry.wake_ups.nudged() => {}
                }
            }
        };
        let _ = leaves_by.of(&clock, leaves).await;
        let session = self.session.clone();
        let ended = by.of(&clock, session.close()).await;
        if let Some(done) = done {
            // The caller may have stopped listening.
            let _ = done.send(self.result_of_close(ended));
        }
    }

    fn result_of_close(&self, ended: Option<Result<()>>) -> Result<()> {
        let kept = |entry: &&Arc<Entry>| self.is_perhaps_kept(entry);
        let unconfirmed: Vec<_> = self.leaving.values().filter(kept).map(|entry| &entry.claim.name).collect();
        close_result(ended, &unconfirmed, self.is_surely_over())
    }

    /// Whether the session's lease has ended in the store. Each of its claims has left or outlived its own.
    fn is_surely_over(&self) -> bool {
        let since_opened = self.opened_at + ttl_of(&*self.session);
        self.clock.now() > self.registry.last_end().max(since_opened)
    }

    /// Whether the store may still have a claim that is leaving. Renewals of neighbouring claims may keep it alive.
    fn is_perhaps_kept(&self, entry: &Entry) -> bool {
        let kept_until = self.registry.kept_until(self.session.shard(&entry.claim.name));
        self.clock.now() <= entry.gone_by().max(kept_until)
    }
}

/// An alarm that is set at once, before its first poll.
fn set_alarm(clock: &Arc<dyn Clock>, at: Moment) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(Sleep::until(clock, at));
    let _ = at_once(sleep.as_mut());
    sleep
}

impl Drop for Keeper {
    /// However the keeper ends, also by a panic in a backend: claims that nobody renews must not be trusted.
    fn drop(&mut self) {
        self.registry.over();
    }
}

impl Done {
    /// The backend panicked: the state of its session is unknown, so none of its claims may be trusted.
    fn from_panic(panic: &tokio::task::JoinError, registry: &Registry) -> Self {
        log::failed_inside(panic);
        registry.over();
        Self::Logged
    }
}
