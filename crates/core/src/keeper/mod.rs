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
mod closing;
mod leaving;
mod log;
mod renewing;
mod repeated_leave;
mod request;
#[cfg_attr(tidelock_simulation, path = "one_thread.rs")]
mod runtime;
mod strays;
mod timing;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

pub(crate) use close_result::end_surely;
pub(crate) use leaving::Leaving;
pub(crate) use request::Request;
pub(crate) use runtime::handle;
pub use runtime::keepers_caught_up;
pub(crate) use timing::{renewal_deadline, ttl_of};

use self::renewing::{Again, Renewing};
use crate::at_once::at_once;
use crate::backend::{Clock, Left, Moment, Renewal, Reply, Session, Shard, Sight, Signals, Sleep};
use crate::deadline;
use crate::limit::Limit;
use crate::registry::{DueLook, EarlyRenewal, Entry, Loss, Registry};
use crate::{ClaimId, ErrorKind, Name, Options, Result, Weight};

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
    /// How often there was a reason to ask about lines that claims have left lately, where an unknown stray may stand.
    /// For each shard, which of these an answered renewal has dealt with.
    seeks: u64,
    sought: BTreeMap<Shard, u64>,
    /// The line in which a renewal has found strays last.
    strayed_last: Option<Name>,
    /// Leaves that are not confirmed yet.
    leaving: BTreeMap<ClaimId, Arc<Entry>>,
    /// The alarm that woke the keeper, or the first one that will. A test that turns the clock by hand waits
    /// until this alarm is dropped, as the sign that all work is done. So one exists from the beginning, and it is
    /// dropped only when the next one is set.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// The outcome of one of the keeper's tasks.
enum Done {
    Renewed(Renewed),
    Looked { name: Name, answer: Result<Sight> },
    Compared { answer: Result<Vec<ClaimId>> },
    Left(ClaimId),
    Logged,
}

/// The outcome of a renewal.
struct Renewed {
    shard: Shard,
    round: u64,
    asked: Vec<(Name, Vec<ClaimId>)>,
    /// The reasons to seek strays that it has dealt with.
    sought: u64,
    answer: Result<Renewal>,
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
        let first = if seeded!("the_first_renewal_is_late") { 1 } else { 3 };
        let renew_at = asked + ttl_of(&*session) / first;
        registry.wake_ups.keeper_renews_at(renew_at);
        let (tasks, shards, leaving) = (JoinSet::new(), BTreeMap::new(), BTreeMap::new());
        let alarm = Some(set_alarm(&clock, renew_at));
        let (renewed_at, opened_at) = (asked, asked);
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
            seeks: 0,
            sought: BTreeMap::new(),
            strayed_last: None,
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
                return self.close(by, done, requests).await;
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
        self.give_back_granted();
        self.seek_unknown_strays(now);
        let early = self.registry.wake_ups.take_early_renewal();
        if early == Some(EarlyRenewal::All) {
            self.seeks += 1; // the news of their grants may be among the signals that were missed
            self.registry.doubt_all();
        }
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
            self.lighten_again();
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
        if seeded!("a_crowd_delays_renewals") && self.leaving.len() > 1 {
            return self.shards.values_mut().for_each(|renewing| renewing.again = None);
        }
        let round = self.registry.begin_round();
        let mut by_shard = self.registry.claims_by_shard(|name| self.session.shard(name));
        self.add_departed_lines(&mut by_shard);
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
                let all = which(renewing).then_some(EarlyRenewal::All);
                renewing.missed = renewing.missed.max(all).max(Some(EarlyRenewal::Short));
                continue;
            }
            if !(which(renewing) || needs_it()) {
                continue;
            }
            renewing.begin();
            let sought = self.seeks;
            let (session, clock) = (self.session.clone(), self.clock.clone());
            let within = renewal_deadline(&self.options, &*session);
            self.start(async move {
                let sent = clock.now();
                let mut answer = deadline::answer_within(&clock, within, session.renew(shard, &asked)).await;
                if let Ok(renewal) = &mut answer
                    && seeded!("a_deadline_counts_from_the_answer")
                {
                    renewal.until = renewal.until + clock.now().since(sent);
                }
                asked.retain(|(_, ids)| !ids.is_empty());
                Done::Renewed(Renewed { shard, round, asked, sought, answer })
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

    /// A server that takes over from another may not know that these claims were made lighter.
    fn lighten_again(&mut self) {
        for entry in self.registry.perhaps_heavy() {
            let (session, clock) = (self.session.clone(), self.clock.clone());
            let within = renewal_deadline(&self.options, &*session);
            entry.lighten(); // what comes from now on is a new reason
            self.start(async move {
                let lightened = session.lighten(&entry.claim, Weight::ONE);
                if deadline::answer_within(&clock, within, lightened).await.is_err() {
                    entry.stays_heavy(); // the next round of renewals tries again
                }
                Done::Logged
            });
        }
    }

    /// Asks whether these claims hold in the store as this client believes, where a renewal cannot tell. A late join
    /// may have arrived after the store forgot the claim, which then stands there anew. Or another server answers, in
    /// which other claims hold that have the same sum of numbers.
    fn compare(&mut self, asked: &[(Name, Vec<ClaimId>)]) {
        for (name, doubtful) in self.registry.doubtful(asked) {
            let (session, clock) = (self.session.clone(), self.clock.clone());
            let within = renewal_deadline(&self.options, &*session);
            let claims = self.registry.find(doubtful.iter().map(|(id, _)| id));
            claims.iter().for_each(|entry| entry.believe()); // what comes from now on is a new reason to doubt
            self.start(async move {
                let not_held = session.not_held(&name, &doubtful);
                let answer = deadline::answer_within(&clock, within, not_held).await;
                if answer.is_err() {
                    claims.iter().for_each(|entry| entry.doubt(true)); // compared after the next renewal
                }
                Done::Compared { answer }
            });
        }
    }

    fn see_through(&mut self, entry: Arc<Entry>, reply: Option<Reply<Left>>) {
        let id = entry.claim.id;
        self.leaves(&entry);
        self.leaving.insert(id, entry.clone());
        let (session, registry) = (self.session.clone(), self.registry.clone());
        let (clock, options) = (self.clock.clone(), self.options.clone());
        self.start(async move {
            repeated_leave::until_confirmed(&*session, &registry, &clock, &options, &entry, reply).await;
            Done::Left(id)
        });
    }

    /// A claim is on its way out, and nothing renews it any more.
    fn leaves(&self, entry: &Entry) {
        entry.leaves_slowly();
        entry.leaves_by(entry.until().max(self.clock.now() + ttl_of(&*self.session)));
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
            Done::Renewed(renewed) => self.renewed(renewed),
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
            Done::Compared { answer } => self.lose_unheld(&answer.unwrap_or_default()),
            Done::Left(id) => {
                self.left(id);
                return false;
            }
            Done::Logged => return false,
        }
        true
    }

    /// The leave of a claim was seen through.
    fn left(&mut self, id: ClaimId) {
        self.registry.remove(id.number);
        if let Some(entry) = self.leaving.remove(&id) {
            self.registry.has_left(&entry);
        }
    }

    fn renewed(&mut self, Renewed { shard, round, asked, sought, answer }: Renewed) {
        let (now, asked) = (self.clock.now(), asked.as_slice());
        self.note_ttl(now);
        let is_whole = |renewal: &Renewal| renewal.unsure.is_empty() && renewal.missed.is_empty();
        if answer.as_ref().is_ok_and(is_whole) {
            self.sought.insert(shard, sought); // otherwise it may not have got to the lines of strays
        }
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
                let is_short = renewal.keeps_anything(asked) && self.registry.is_short(renewal.until);
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
                if let Some((line, _)) = renewal.strays.last() {
                    self.strayed_last = Some(line.clone());
                }
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
        match renewing.missed.take() {
            // After a failure it is renewed again anyway, after a pause.
            Some(EarlyRenewal::All) if renewing.again.is_none() => {
                renewing.again = Some(Again { at: now, pause: self.options.first_pause });
            }
            Some(EarlyRenewal::Short) => self.registry.wake_ups.renew_early(EarlyRenewal::Short),
            _ => {}
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
