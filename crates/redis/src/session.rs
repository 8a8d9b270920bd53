//! One client's session: each call is one script, or one pipeline of them.
//!
//! What users ask goes down one connection, in order, so that a leave never overtakes its join; renewals go down
//! another, so that no crowd delays them. The server knows sessions only by the claims they have: a session that has
//! none costs it nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Cmd;
use tidelock::{
    Claim, ClaimId, Clock, Leave, Left, Line, Moment, Name, Patience, Place, Renewal, Reply,
    Result, Session, SessionId, Shard, Sight, Weight,
};

use crate::keys::Keys;
use crate::link::Link;
use crate::script::{INSPECT, JOIN, LEAVE, LIGHTEN, LOOK, RENEW, RESIZE, Script};
use crate::{inspection, reply, trouble};

/// How long an idle name remembers its newest token, at least.
const MEMORY: Duration = Duration::from_secs(60 * 60);
/// How many names are renewed by one pipeline: others' commands get a turn in between, and so does this thread.
const PIPELINE: usize = 256;

#[derive(Debug)]
pub(crate) struct RedisSession {
    pub(crate) id: SessionId,
    pub(crate) ttl: Duration,
    pub(crate) label: Arc<str>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: Link,
    pub(crate) renewals: Link,
    /// Claims whose leaves are not confirmed.
    pub(crate) leaving: Leaving,
}

/// Claims on their way out: their names, and until when the server could still have them.
pub(crate) type Leaving = Arc<Mutex<HashMap<ClaimId, (Name, Moment)>>>;

impl RedisSession {
    /// A script on a name, up to what all of them are told first: who calls, and on what channels clients hear.
    fn call(&self, script: &Script, name: &Name) -> Cmd {
        let mut command = script.call();
        self.keys.put(&mut command, name, script.keys);
        if script.keys == crate::keys::PARTS.len() {
            command.arg(self.id.to_string()).arg(&self.keys.channels);
        }
        command
    }

    fn ttl_millis(&self) -> u64 {
        millis(self.ttl)
    }

    fn idle_millis(&self) -> u64 {
        millis(MEMORY.max(self.ttl * 4))
    }

    fn look_command(&self, name: &Name, claims: &[ClaimId], strays: bool) -> Cmd {
        let mut command = self.call(&LOOK, name);
        command.arg(self.ttl_millis()).arg(u8::from(strays));
        for claim in claims {
            command.arg(claim.number);
        }
        command
    }

    fn renew_command(&self, name: &Name) -> Cmd {
        let mut command = self.call(&RENEW, name);
        command.arg(self.id.to_string()).arg(self.ttl_millis()).arg(self.idle_millis());
        command
    }

    fn leave_command(&self, name: &Name, id: ClaimId, how: Leave) -> Cmd {
        let mut command = self.call(&LEAVE, name);
        let how = if how == Leave::Void { "void" } else { "done" };
        command.arg(id.to_string()).arg(how).arg(self.ttl_millis()).arg(self.idle_millis());
        command
    }

    /// Renews these names, and looks where the server counts other claims than we do.
    async fn renew_some(&self, some: &[(Name, Vec<ClaimId>)], renewal: &mut Renewal) -> Result<()> {
        let commands = some.iter().map(|(name, _)| self.renew_command(name)).collect();
        let replies = self.renewals.ask_all(commands).await?;
        for ((name, claims), reply) in some.iter().zip(replies) {
            match trouble::checked(reply, self.renewals.place()) {
                Ok(reply) if reply::counted(&reply) == Some(sum(claims)) => {}
                Ok(_) => self.compare(name, claims, renewal).await?,
                Err(error) => {
                    tracing::warn!(lock.name = %name, %error, "the claims on one name could not be renewed");
                    renewal.unsure.extend(claims);
                }
            }
        }
        Ok(())
    }

    async fn compare(&self, name: &Name, claims: &[ClaimId], renewal: &mut Renewal) -> Result<()> {
        let reply = self.renewals.ask(self.look_command(name, claims, true)).await?;
        let seen = reply::seen(&reply, self.id, self.renewals.place())?;
        renewal.gone.extend(seen.sight.gone);
        renewal.strays.extend(seen.strays.into_iter().map(|id| (name.clone(), id)));
        Ok(())
    }

    /// All names in use that begin with `prefix`, in order.
    async fn all_names(&self, prefix: &str) -> Result<Vec<Name>> {
        let (mut cursor, pattern) = ("0".to_owned(), self.keys.pattern(prefix));
        let mut names = Vec::new();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let reply = self.commands.ask(scan).await?;
            let [next, found] = reply::parts(&reply) else {
                return Err(trouble::strange(&reply, self.commands.place()));
            };
            let found: Vec<Name> = reply::parts(found)
                .iter()
                .filter_map(|key| self.keys.name(reply::text(key)?))
                .collect();
            names.extend(self.in_use(found).await?);
            match reply::text(next) {
                Some(next) if next != "0" => cursor = next.to_owned(),
                _ => break,
            }
        }
        names.sort_unstable();
        names.dedup(); // a scan may meet a key twice
        Ok(names)
    }

    /// Those of these names on which somebody stands who is alive.
    async fn in_use(&self, names: Vec<Name>) -> Result<Vec<Name>> {
        let commands = names.iter().map(|name| self.look_command(name, &[], false)).collect();
        let replies = self.commands.ask_all(commands).await?;
        let is_in_use = |reply| {
            let reply = trouble::checked(reply, self.commands.place())?;
            Ok(reply::seen(&reply, self.id, self.commands.place())?.is_in_use)
        };
        let mut used = Vec::new();
        for (name, reply) in names.into_iter().zip(replies) {
            if is_in_use(reply)? {
                used.push(name);
            }
        }
        Ok(used)
    }
}

#[async_trait]
impl Session for RedisSession {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        let mut command = self.call(&JOIN, &claim.name);
        command.arg(claim.id.to_string()).arg(claim.kind.as_str());
        command.arg(claim.weight.get()).arg(claim.capacity.get());
        command.arg(self.ttl_millis()).arg(self.idle_millis()).arg(&*self.label);
        command.arg(u8::from(patience == Patience::Wait));
        let until = self.clock.now() + self.ttl; // from before it is sent; asked again, the script renews
        let reply = self.commands.ask(command).await?;
        reply::place(&reply, until, self.commands.place())
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let reply = self.commands.ask(self.look_command(name, waiting, false)).await?;
        Ok(reply::seen(&reply, self.id, self.commands.place())?.sight)
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let reply = self.commands.ask_regardless(self.leave_command(name, id, how));
        let surely_over = self.clock.now() + self.ttl * 2;
        lock(&self.leaving).insert(id, (name.clone(), surely_over));
        let (leaving, place) = (self.leaving.clone(), Arc::<str>::from(self.commands.place()));
        Box::pin(async move {
            let left = reply::left(&reply.await?, &place)?;
            lock(&leaving).remove(&id);
            Ok(left)
        })
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        let mut command = self.call(&LIGHTEN, &claim.name);
        command.arg(claim.id.to_string()).arg(weight.get());
        let reply = self.commands.ask(command).await?;
        reply::lightened(&reply, claim.id, self.commands.place())
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let mut command = self.call(&RESIZE, name);
        command.arg(from.get()).arg(to.get());
        let reply = self.commands.ask(command).await?;
        reply::resized(&reply, self.commands.place())
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let until = self.clock.now() + self.ttl; // from before the first is sent
        let mut renewal = Renewal { until, gone: Vec::new(), unsure: Vec::new(), strays: Vec::new() };
        let now = self.clock.now();
        lock(&self.leaving).retain(|_, (_, surely_over)| *surely_over > now);
        if standing.is_empty() {
            return Ok(renewal);
        }
        self.commands.beat();
        for some in standing.chunks(PIPELINE) {
            self.renew_some(some, &mut renewal).await?;
        }
        Ok(renewal)
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        let reply = self.commands.ask(self.call(&INSPECT, name)).await?;
        inspection::line(&reply, self.commands.place())
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let mut names = self.all_names(prefix).await?;
        names.retain(|name| after.is_none_or(|after| name > after));
        Ok(names)
    }

    /// Core has given every claim back; what the server did not confirm is given back once more.
    async fn close(&self) -> Result<()> {
        let left = std::mem::take(&mut *lock(&self.leaving));
        let commands: Vec<Cmd> =
            left.iter().map(|(id, (name, _))| self.leave_command(name, *id, Leave::Void)).collect();
        if commands.is_empty() {
            return Ok(());
        }
        for reply in self.commands.ask_all(commands).await? {
            trouble::checked(reply, self.commands.place())?;
        }
        Ok(())
    }
}

/// How many there are, and the sum of their numbers.
fn sum(claims: &[ClaimId]) -> (u64, u64) {
    (claims.len() as u64, claims.iter().map(|claim| claim.number).sum())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock(leaving: &Leaving) -> MutexGuard<'_, HashMap<ClaimId, (Name, Moment)>> {
    leaving.lock().unwrap_or_else(PoisonError::into_inner)
}
