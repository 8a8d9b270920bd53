//! A task of a client, which carries out its steps one after the other.
//!
//! What it asks for and what it lets go is recorded before the lock hears of it, because from then on others may be
//! granted; what it gets is recorded after.

mod asking;
mod client;
mod hold;
mod taking;

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tidelock_core::backend::{Clock, Sleep};
use tidelock_core::{Error, ErrorKind, Locks, Result};
use tidelock_history::EventKind;
use tokio::task::JoinSet;

pub(crate) use self::client::Client;
use crate::medium::Medium;
use crate::plan::{Action, Fault, How, Plan, Step, Taking, Tool, Trouble, Usage, ms, name_of};
use crate::record::Record;
use crate::time::Time;

/// How late something may be seen that is due by a client's clock.
const PROMPT: Duration = Duration::from_millis(100);

/// What the tasks of a world share.
pub(crate) struct Field {
    pub(crate) plan: Plan,
    pub(crate) time: Arc<Time>,
    pub(crate) record: Arc<Record>,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) clients: Vec<Client>,
    /// The tasks that have got a guard from another one.
    pub(crate) handed_over: Mutex<JoinSet<()>>,
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
        let locks = match self.client().locks(&self.field.plan, &self.field.medium) {
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
            ErrorKind::Unavailable if self.may_ask_the_old_master(step) => true,
            ErrorKind::Unavailable | ErrorKind::Timeout => !is_well || self.has_little_time(step),
            ErrorKind::Lost => true, // the record judges losses
            ErrorKind::Closed => self.field.plan.ends_early(self.client),
            ErrorKind::KindMismatch => self.uses(step, |usage| usage == Usage::Mixed),
            ErrorKind::InvalidPermits => {
                self.uses(step, |usage| matches!(usage, Usage::Semaphore(_) | Usage::Mixed))
            }
            ErrorKind::Conflict => matches!(step.action, Action::Resize { .. }),
            _ => false,
        };
        if !is_explained {
            self.field.record.found("errors", format!("nothing explains the error of {step:?}: {error}"));
        }
    }

    /// Whether the answer to a join may come too late for the patience of an acquire.
    fn has_little_time(&self, step: &Step) -> bool {
        match &step.action {
            // An answer that nobody looks at is late; and each of several names gets what the ones before it have left.
            Action::Take(
                Taking { how: How::Away(..), .. } | Taking { how: How::Within(_), tool: Tool::All(_), .. },
            ) => true,
            // Whoever is evicted stands in line anew, for what is left of its time.
            Action::Take(Taking { how: How::Within(patience), name, .. }) => {
                self.field.plan.evicts(*name)
                    || *patience < self.field.plan.delay * 20 + 100
                    || self.stands_behind_one_that_is_away(*patience)
            }
            _ => false,
        }
    }

    /// Who leads in a local line and is not polled keeps those behind it from asking, for two deadlines at most. So may the
    /// next one.
    fn stands_behind_one_that_is_away(&self, patience: u64) -> bool {
        let plan = &self.field.plan;
        let part = &plan.clients[self.client];
        let is_away = |step: &&Step| {
            let is_left = |taking: &Taking| matches!(taking.how, How::Away(..) | How::Neglect(_));
            step.client == self.client && matches!(&step.action, Action::Take(taking) if is_left(taking))
        };
        let away = plan.steps.iter().filter(is_away).count() as u64;
        part.linger > 0 && away > 0 && patience < part.command_deadline * (away * 2 + 1)
    }

    /// Whether the step is about a name that is used like that.
    fn uses(&self, step: &Step, is_meant: impl Fn(Usage) -> bool) -> bool {
        let names = &self.field.plan.names;
        step.action.names().into_iter().any(|name| names.get(name).is_some_and(|usage| is_meant(*usage)))
    }

    /// Whether the first request after a failover may go to the old master, because its client had nothing in line and so
    /// asked no sentinel. An acquire then tries again.
    fn may_ask_the_old_master(&self, step: &Step) -> bool {
        let is_alive = |trouble: &Trouble| matches!(trouble.what, Fault::Failover { is_alive: true, .. });
        !matches!(step.action, Action::Take(_)) && self.field.plan.troubles.iter().any(is_alive)
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
        let by = self.field.time.now() + longest;
        record.ends(self.client, by);
        let began = clock.now();
        let ended = match drains {
            true => locks.drain_within(within).await.map(drop),
            false => locks.close_within(within).await,
        };
        record.has_ended(self.client, by);
        self.judge_patience("an end", clock.now().since(began), longest);
        self.client().replace(locks);
        if ended.is_err() {
            record.ends_unconfirmed(self.client);
        }
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

/// Whether an error of that kind says that nothing was done.
fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidName, InvalidPermits, KindMismatch};
    matches!(kind, Conflict | InvalidName | InvalidPermits | KindMismatch)
}
