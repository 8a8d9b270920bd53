//! Rounds: each asks replicas about the grants since the last round.
//!
//! `WAIT` tells how many replicas have everything that its own connection has written, and it blocks that connection.
//! So each server has a separate connection for it. One round at a time goes out there as one write: a small script for
//! each grant, which writes to the grant's name, and one `WAIT` for all of them. Grants that come meanwhile go into the
//! next round. The scripts are sent as text: if the server had forgotten a hash, the repetition would come after the
//! `WAIT`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tidelock_core::backend::{Leave, Moment, Session, Shard, Sight, Sleep, unharmed};
use tidelock_core::{Error, ErrorKind, Options, Replicas, Result};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::gate::{Ask, Gate, Refused};
use crate::link::{Link, WhenDropped};
use crate::session::RedisSession;
use crate::{script, trouble};

/// The most grants in one round: between rounds, other scripts get a turn.
const MOST: usize = 256;
/// After how many failures to ask about a grant it is refused: a connection may break once.
const FAILURES: u32 = 2;

pub(super) struct Rounds {
    session: Arc<RedisSession>,
    gate: Arc<Gate>,
    replicas: Replicas,
    first_pause: Duration,
    longest_pause: Duration,
    lanes: HashMap<Shard, Lane>,
    tasks: JoinSet<Done>,
}

/// The requests to one server.
struct Lane {
    link: Arc<Link>,
    waiting: Vec<Ask>,
    is_under_way: bool,
    /// How long a refused claim pauses before it stands in line again. Zero while enough replicas answer.
    rest: Duration,
}

/// The outcome of a task.
enum Done {
    Asked(Shard, Vec<Ask>, Result<Vec<Value>>),
    /// Asked through the fleet, which follows redirections, so the name's server is known now.
    Followed(Ask, Result<Value>),
    /// The server does not have the grant, and was asked what it has instead.
    Looked(Ask, Result<Sight>),
    Left,
}

impl Rounds {
    pub(super) fn new(
        session: Arc<RedisSession>,
        gate: Arc<Gate>,
        replicas: Replicas,
        options: &Options,
    ) -> Self {
        let longest_pause = options.longest_pause.min(options.ttl / 9); // a waiting claim may be first in line
        let first_pause = options.first_pause.min(longest_pause);
        let (lanes, tasks) = (HashMap::new(), JoinSet::new());
        Self { session, gate, replicas, first_pause, longest_pause, lanes, tasks }
    }

    /// Runs until aborted; its tasks are aborted with it.
    pub(super) async fn run(mut self, mut to_ask: UnboundedReceiver<Ask>) {
        let mut new = Vec::new();
        loop {
            tokio::select! {
                count = to_ask.recv_many(&mut new, MOST) => {
                    if count == 0 {
                        return;
                    }
                    new.drain(..).for_each(|ask| self.line_up(ask));
                }
                Some(Ok(done)) = self.tasks.join_next() => self.note(done),
            }
        }
    }

    /// Puts a grant into the lane of the server that has its name, and starts a round there unless one is under way.
    fn line_up(&mut self, ask: Ask) {
        let shard = self.session.fleet.shard(&ask.name);
        let Some(server) = self.session.fleet.of_shard(shard) else {
            let gone = "the server of this lock has left the cluster";
            return self.ask_again(ask, Error::new(ErrorKind::Unavailable, gone));
        };
        let within = self.replicas.within;
        let lane = self.lanes.entry(shard).or_insert_with(|| Lane {
            link: Arc::new(server.slow_link(within)),
            waiting: Vec::new(),
            is_under_way: false,
            rest: Duration::ZERO,
        });
        lane.waiting.push(ask);
        self.begin(shard);
    }

    fn begin(&mut self, shard: Shard) {
        let Some(lane) = self.lanes.get_mut(&shard).filter(|lane| !lane.is_under_way) else { return };
        lane.waiting.retain(|ask| self.gate.is_wanted(ask));
        if lane.waiting.is_empty() {
            return;
        }
        lane.is_under_way = true;
        let link = lane.link.clone();
        let asks: Vec<Ask> = lane.waiting.drain(..lane.waiting.len().min(MOST)).collect();
        let mut commands: Vec<Cmd> = asks.iter().map(|ask| self.confirm(ask)).collect();
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas.count).arg(self.replicas.within.as_millis() as u64);
        commands.push(wait);
        self.tasks.spawn(async move {
            let replies = link.ask_all(commands).await;
            Done::Asked(shard, asks, replies)
        });
    }

    fn confirm(&self, ask: &Ask) -> Cmd {
        let command = self.session.calls.confirm(&ask.name, ask.id, ask.grant.token);
        script::by_text(&command).unwrap_or(command)
    }

    fn note(&mut self, done: Done) {
        match done {
            Done::Asked(shard, asks, replies) => {
                self.asked(shard, asks, replies);
                self.begin(shard);
                self.tidy(shard);
            }
            Done::Followed(ask, Ok(_)) => self.line_up(ask),
            Done::Followed(ask, Err(error)) => self.refuse(ask, Duration::ZERO, error),
            Done::Looked(ask, Ok(sight)) => self.looked(ask, &sight),
            Done::Looked(ask, Err(error)) => self.ask_again(ask, error),
            Done::Left => {}
        }
    }

    /// Forgets a server that has no names any more.
    fn tidy(&mut self, shard: Shard) {
        let has_names = self.session.fleet.of_shard(shard).is_some();
        self.lanes.retain(|other, lane| *other != shard || has_names || lane.is_under_way);
    }

    fn asked(&mut self, shard: Shard, asks: Vec<Ask>, replies: Result<Vec<Value>>) {
        let Some(lane) = self.lanes.get_mut(&shard) else { return };
        lane.is_under_way = false;
        let place = lane.link.place().to_owned();
        let outcome = replies.and_then(|mut replies| {
            let known = trouble::checked(replies.pop().unwrap_or_default(), &place)?;
            let Value::Int(known) = known else { return Err(trouble::strange(&known)) };
            Ok((replies, known))
        });
        let (replies, known) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return asks.into_iter().for_each(|ask| self.ask_again(ask, error.clone())),
        };
        let enough = known >= i64::from(self.replicas.count);
        self.tell(shard, enough, known);
        for (ask, reply) in asks.into_iter().zip(replies) {
            match reply {
                Value::Int(1) if enough => self.gate.counts(&ask),
                Value::Int(1) => self.refuse(ask, self.rest(shard), self.too_few(known)),
                Value::Int(_) => self.look(ask),
                reply => {
                    let strange = trouble::checked(reply, &place).map(|reply| trouble::strange(&reply));
                    self.ask_again(ask, strange.unwrap_or_else(|error| error));
                }
            }
        }
    }

    /// Tries again after asking about a grant has failed: the name may have moved to another server, or the connection
    /// broke. Sends the same script through the fleet, which finds the name's server, and then lines the grant up once
    /// more.
    fn ask_again(&mut self, mut ask: Ask, why: Error) {
        ask.failures += 1;
        if ask.failures >= FAILURES {
            return self.refuse(ask, self.first_pause, why);
        }
        let reply = self.session.fleet.ask(&ask.name, self.confirm(&ask), WhenDropped::Forget);
        self.tasks.spawn(async move { Done::Followed(ask, reply.await) });
    }

    /// Finds out what the server has instead of a grant.
    fn look(&mut self, ask: Ask) {
        let session = self.session.clone();
        self.tasks.spawn(async move {
            let sight = session.look(&ask.name, &[ask.id]).await;
            Done::Looked(ask, sight)
        });
    }

    fn looked(&mut self, ask: Ask, sight: &Sight) {
        let elsewhere =
            || Error::new(ErrorKind::Unavailable, "the grant was that of a server that is no more");
        match sight.held.first() {
            Some((_, grant)) if grant.token == ask.grant.token => self.ask_again(ask, elsewhere()),
            None if !sight.gone.is_empty() => self.gate.is_gone(&ask),
            held => {
                if self.gate.stands(&ask, held.map(|(_, grant)| *grant)) {
                    self.refuse(ask, Duration::ZERO, elsewhere());
                }
            }
        }
    }

    /// Gives a grant back that does not count.
    fn refuse(&mut self, ask: Ask, rest: Duration, why: Error) {
        let (session, gate) = (self.session.clone(), self.gate.clone());
        let first_pause = self.first_pause;
        self.tasks.spawn(async move {
            if let Some(refused) = gate.begin_leaving(&ask) {
                give_back(&session, &ask, refused, rest, first_pause, why).await;
            }
            Done::Left
        });
    }

    fn rest(&self, shard: Shard) -> Duration {
        self.lanes.get(&shard).map_or(self.first_pause, |lane| lane.rest)
    }

    fn too_few(&self, known: i64) -> Error {
        let Replicas { count, within } = self.replicas;
        let few = format!("{known} of the {count} required replicas had the grant within {within:?}");
        Error::new(ErrorKind::Unavailable, few)
    }

    /// Logs for operators when grants stop counting and when they count again; sets the pause for refused claims.
    fn tell(&mut self, shard: Shard, enough: bool, known: i64) {
        let (wanted, longest) = (self.replicas.count, self.longest_pause);
        let Some(lane) = self.lanes.get_mut(&shard) else { return };
        let place = lane.link.place();
        unharmed(|| match (enough, lane.rest.is_zero()) {
            (true, true) => {}
            (true, false) => tracing::info!(place, "enough replicas confirm grants again"),
            (false, true) => {
                tracing::warn!(
                    place,
                    known,
                    wanted,
                    "too few replicas confirm grants, so the grants do not count"
                );
            }
            (false, false) => tracing::debug!(place, known, wanted, "too few replicas still confirm grants"),
        });
        lane.rest = match enough {
            true => Duration::ZERO,
            false => (lane.rest * 2).clamp(self.first_pause, longest),
        };
    }
}

/// Leaves, and then tells why. A claim that joined with patience stands in line again after a pause; its leave does not
/// wait for that.
async fn give_back(
    session: &RedisSession,
    ask: &Ask,
    mut refused: Refused<'_>,
    rest: Duration,
    first_pause: Duration,
    why: Error,
) {
    let surely_over = session.clock.now() + session.calls.ttl;
    let has_left = session.leave(&ask.name, ask.id, Leave::Done).await.is_ok();
    if has_left {
        refused.forget(); // before it is told, because it then joins again
    }
    let told = async {
        if refused.has_patience() {
            Sleep::until(&session.clock, session.clock.now() + rest).await;
        }
        refused.tell(why);
    };
    let left = async {
        if !has_left {
            leave_again(session, ask, first_pause, surely_over).await;
        }
    };
    tokio::join!(told, left);
    if !has_left {
        refused.forget();
    }
}

/// Repeats an unconfirmed leave for as long as the server could still have the claim. It repeats soon, however long the
/// configured pauses are, because the claim delays everyone.
async fn leave_again(session: &RedisSession, ask: &Ask, first_pause: Duration, surely_over: Moment) {
    let clock = &session.clock;
    let longest = session.calls.ttl / 10;
    let mut pause = first_pause.min(longest);
    while clock.now() < surely_over {
        Sleep::until(clock, clock.now() + pause).await;
        pause = (pause * 2).min(longest);
        if session.leave(&ask.name, ask.id, Leave::Void).await.is_ok() {
            return;
        }
    }
}
