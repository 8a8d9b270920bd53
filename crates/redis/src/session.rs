//! One client's session. Each call is one script, or one pipeline of scripts.
//!
//! The server knows a session only by its claims: a session without claims costs the server nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Value};
use tidelock_core::backend::{
    Claim, Clock, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard, Sight,
};
use tidelock_core::{ClaimId, Error, ErrorKind, Line, Name, Result, Weight};
use tokio::runtime::Handle;

use crate::calls::Calls;
use crate::fleet::Fleet;
use crate::link::WhenDropped;
use crate::renewing::{LOOKS, Renewing, nothing};
use crate::seen_through::SeenThrough;
use crate::server::Server;
use crate::{inspection, reply, trouble};

/// The shard about which core asks in every round, also where no claim stands.
const IN_EVERY_ROUND: Shard = Shard(0);

#[derive(Debug)]
pub(crate) struct RedisSession {
    pub(crate) calls: Calls,
    /// How long a renewal may take.
    pub(crate) renew_within: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    /// The keeper's runtime.
    pub(crate) runtime: Handle,
    pub(crate) fleet: Arc<dyn Fleet>,
    /// The claims whose leaves are not confirmed.
    pub(crate) leaving: Leaving,
    /// When dead connections were last sought.
    pub(crate) beaten: Mutex<Moment>,
}

/// Claims that are leaving, with their names and the time until which the server could still have them.
pub(crate) type Leaving = Arc<Mutex<HashMap<ClaimId, (Name, Moment)>>>;

impl RedisSession {
    /// Seeks dead connections, once in each round: a retry of a renewal is no round.
    fn beat(&self, now: Moment) {
        let mut beaten = self.beaten.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(*beaten) > self.calls.ttl / 4 {
            *beaten = now;
            self.fleet.beat();
        }
    }

    async fn ask(&self, name: &Name, command: Cmd) -> Result<Value> {
        self.fleet.ask(name, command, WhenDropped::Forget).await
    }

    /// The names in use on one server that begin with `prefix`, in any order.
    async fn names_on(&self, server: &Server, prefix: &str) -> Result<Vec<Name>> {
        let (mut cursor, pattern) = ("0".to_owned(), self.calls.keys.pattern(prefix));
        let mut names = Vec::new();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let reply = trouble::checked(
                server.commands.ask(scan, WhenDropped::Forget).await?,
                server.commands.place(),
            )?;
            let [next, found] = reply::parts(&reply) else {
                return Err(trouble::strange(&reply));
            };
            let found = reply::parts(found).iter().filter_map(|key| self.calls.keys.name(reply::text(key)?));
            names.extend(self.in_use(found.collect()).await?);
            match reply::text(next) {
                Some(next) if next != "0" => cursor = next.to_owned(),
                _ => return Ok(names),
            }
        }
    }

    /// Filters the names: keeps those on which a live claim stands.
    async fn in_use(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        // Ask the server that has the name now: the one whose keys were scanned may no longer be a master.
        let ask = |name| self.fleet.ask(name, self.calls.look(name, &[], "0"), WhenDropped::Forget);
        let asked: Vec<Reply<Value>> = names.iter().map(ask).collect();
        let mut used = Vec::new();
        for (name, reply) in names.into_iter().zip(asked) {
            if reply::seen(&reply.await?, self.calls.session)?.is_in_use {
                used.push(name);
            }
        }
        Ok(used)
    }
}

#[async_trait]
impl Session for RedisSession {
    fn ttl(&self) -> Duration {
        self.calls.ttl
    }

    fn shard(&self, name: &Name) -> Shard {
        self.fleet.shard(name)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        let until = self.clock.now() + self.calls.ttl; // counts from before the send; a repeated join renews
        let reply = self.ask(&claim.name, self.calls.join(claim, patience)).await?;
        reply::place(&reply, claim.capacity, until)
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let ask = |some| self.fleet.ask(name, self.calls.look(name, some, "0"), WhenDropped::Forget);
        let nobody = waiting.is_empty().then_some(waiting);
        let asked: Vec<_> = waiting.chunks(LOOKS).chain(nobody).map(ask).collect();
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: self.calls.ttl };
        for reply in asked {
            let seen = reply::seen(&reply.await?, self.calls.session)?.sight;
            sight.held.extend(seen.held);
            sight.gone.extend(seen.gone);
            sight.look_in = seen.look_in; // the last reply is the newest
        }
        Ok(sight)
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let when_dropped =
            if seeded!("a_leave_is_given_up") { WhenDropped::Forget } else { WhenDropped::Send };
        let reply = self.fleet.ask(name, self.calls.leave(name, id, how), when_dropped);
        let surely_over = self.clock.now() + self.calls.ttl * 2;
        lock(&self.leaving).insert(id, (name.clone(), surely_over));
        let leaving = self.leaving.clone();
        let confirmed = async move {
            let left = reply::left(&reply.await?)?;
            lock(&leaving).remove(&id);
            Ok(left)
        };
        Box::pin(SeenThrough::new(Box::pin(confirmed), self.runtime.clone()))
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        let reply = self.ask(&claim.name, self.calls.lighten(claim, weight)).await?;
        reply::lightened(&reply, claim.id)
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let reply = self.ask(name, self.calls.resize(name, from, to)).await?;
        reply::resized(&reply)
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let now = self.clock.now(); // before the first send
        lock(&self.leaving).retain(|_, (_, surely_over)| *surely_over > now);
        if shard == IN_EVERY_ROUND {
            self.beat(now);
        }
        let Some(server) = self.fleet.of_shard(shard) else {
            let gone = Error::new(ErrorKind::Unavailable, "the server of these locks has left the cluster");
            return if standing.is_empty() { Ok(nothing(Moment::START)) } else { Err(gone) };
        };
        server.look_around(!standing.is_empty());
        if standing.is_empty() {
            return Ok(nothing(Moment::START));
        }
        let time = (now, self.renew_within);
        Renewing::new(&self.calls, &*self.fleet, &self.clock, &server, time).renew(standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        let reply = self.ask(name, self.calls.inspect(name)).await?;
        inspection::line(&reply)
    }

    /// There is no index of names, so this scans the servers' keys. The page contains all names.
    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for server in self.fleet.all().await {
            names.extend(self.names_on(&server, prefix).await?);
        }
        names.retain(|name| after.is_none_or(|after| name > after));
        names.sort_unstable();
        names.dedup(); // a scan may meet a key twice
        Ok(names)
    }

    /// Core has given every claim back. Leaves that the server did not confirm are repeated here: all of them are on their
    /// way before the first is waited for, so that one master that serves nothing holds up nothing of another.
    async fn close(&self) -> Result<()> {
        let mut left: Vec<_> =
            lock(&self.leaving).iter().map(|(id, (name, _))| (*id, name.clone())).collect();
        left.sort_unstable_by_key(|(id, _)| *id); // an order that does not change from run to run
        let ask = |(id, name): (ClaimId, Name)| {
            let leave = self.calls.leave(&name, id, Leave::Void);
            (id, self.fleet.ask(&name, leave, WhenDropped::Forget))
        };
        let asked: Vec<_> = left.into_iter().map(ask).collect();
        let mut trouble = Ok(());
        for (id, reply) in asked {
            match reply.await {
                Ok(_) => drop(lock(&self.leaving).remove(&id)),
                Err(error) => trouble = trouble.and(Err(error)),
            }
        }
        trouble
    }
}

fn lock(leaving: &Leaving) -> MutexGuard<'_, HashMap<ClaimId, (Name, Moment)>> {
    leaving.lock().unwrap_or_else(PoisonError::into_inner)
}
