//! A Redis under trial: a single server, a master with replicas under sentinels, or a cluster.
//!
//! The commands are the scripts that the server ran, because every request of a lock is one script. The signals are
//! the messages that it published. Only masters are counted: replicas receive and repeat the published messages.

mod failover;
mod keys;
mod servers;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::cmd;
use tidelock_conformance::subjects::{Control, Site};
use tidelock_conformance::{Ability, Act, Belief, Can, Cost, Counts, Mishap};
use tidelock_core::backend::Backend;
use tidelock_core::{Result, SessionId};
use tidelock_redis::Store;

use self::servers::{Servers, Shape, ask};

/// Servers share the processors with the trials: with the shortest ttl that options allow, renewals came too late on a
/// machine that was slow.
const TTL: Duration = Duration::from_secs(2);

/// The site of one Redis, of whatever shape its URL says.
#[derive(Debug)]
pub(crate) struct Redis {
    url: String,
    servers: Servers,
}

impl Redis {
    /// The Redis at that URL. Its user must be allowed every command, an operator's too. The URL is one that
    /// [`Store::open`] accepts.
    ///
    /// # Errors
    /// If it is not a URL of a Redis.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Store::open(url)?; // its error for a bad URL is the best one
        Ok(Self { url: url.to_owned(), servers: Servers::of(url)? })
    }

    fn is_alone(&self) -> bool {
        self.servers.shape == Shape::Alone
    }
}

#[async_trait]
impl Site for Redis {
    fn name(&self) -> &'static str {
        match self.servers.shape {
            Shape::Alone => "redis",
            Shape::Sentinels(_) => "redis sentinel",
            Shape::Cluster => "redis cluster",
        }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn default_port(&self) -> u16 {
        match self.servers.shape {
            Shape::Sentinels(_) => 26_379,
            Shape::Alone | Shape::Cluster => 6_379,
        }
    }

    fn assumptions(&self) -> Vec<String> {
        let mut assumptions: Vec<String> = vec![
            "All keys of a name are on one server, and that server's clock does not step.".into(),
            "The caller checks its guard before each write: a write that is already on its way when the guard is \
             lost may still arrive."
                .into(),
            "The server evicts no keys of the namespace: `maxmemory-policy` is `noeviction`.".into(),
            "After the server has lost its data, its clock is not behind the newest grant: tokens then come from the \
             clock."
                .into(),
        ];
        if !self.is_alone() {
            assumptions.push(
                "A replica that becomes master has every grant of the old master: grants do not wait for \
                 replication."
                    .into(),
            );
            assumptions.push(
                "The clocks of a master and its replicas agree: a new master's clock is not behind the newest grant."
                    .into(),
            );
        }
        if self.servers.shape == Shape::Cluster {
            assumptions.push(
                "A node serves its slots even if other slots have no master: `cluster-require-full-coverage` is `no`."
                    .into(),
            );
        }
        assumptions
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::EndSession => {
                no("a session exists only in its client: the server ends claims one by one")
            }
            Ability::FailOver if self.is_alone() => no("a single server has no replica"),
            Ability::Agree if self.is_alone() => no("there is only one server"),
            Ability::Agree => no("its servers form no quorum: a replica follows one master"),
            Ability::Spread if self.servers.shape != Shape::Cluster => no("all names are on one server"),
            Ability::StepClock if self.servers.shape == Shape::Cluster => {
                no("nodes whose clocks step consider each other dead, which causes a failover")
            }
            other if other.is_of_the_network() && self.url.starts_with("rediss") => {
                no("a proxy does not have the server's certificate")
            }
            _ => Can::Yes,
        }
    }

    fn belief(&self, mishap: Mishap) -> Belief {
        let may = |why: &str| Belief::MayOverlap(why.to_owned());
        match mishap {
            Mishap::Eviction => may("an evicted holder learns of it by a message, or at its next renewal"),
            Mishap::StoppedClient => {
                may("a client stopped between checking its guard and writing does not check again")
            }
            Mishap::Restart => may(
                "without persistence the server loses its data, and holders learn of it at their next request",
            ),
            Mishap::Forgetting => may("holders learn of it at their next renewal"),
            Mishap::FailOver if !self.is_alone() => may("a grant is reported before the replicas have it"),
            Mishap::ClockStep if self.servers.shape == Shape::Cluster => Belief::CannotHappen(
                "nodes whose clocks step consider each other dead, which is a failover".into(),
            ),
            Mishap::FailOver => Belief::CannotHappen("a single server has no replica".into()),
            _ => may("claims expire by the server's clock, guards by their clients' clocks"),
        }
    }

    fn ttl(&self) -> Duration {
        if self.is_alone() { TTL } else { TTL + Duration::from_secs(1) }
    }

    fn cost(&self) -> Cost {
        Cost { acquire: 1, release: 1, hand_off: 0, renewal: 1 }
    }

    fn member(&self) -> &'static str {
        "server"
    }

    async fn homes(&self, names: &[String]) -> Result<Vec<String>> {
        let homes = self.servers.homes(names).await?;
        Ok(homes.iter().map(|node| node.port.to_string()).collect())
    }

    async fn move_name(&self, namespace: &str, name: &str) -> Result<()> {
        self.servers.move_name(namespace, name).await
    }

    async fn told(&self) -> Result<Vec<(String, u16)>> {
        if self.is_alone() {
            return Ok(Vec::new());
        }
        Ok(self.servers.all().await?.into_iter().map(|node| (node.host, node.port)).collect())
    }

    /// The replies of `SENTINEL MASTER`, of `CLUSTER SLOTS`, and of a node that refuses a slot it does not have.
    fn spellings(&self, host: &str, port: u16) -> Vec<String> {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let (host_in_bulk, port_in_bulk) = (bulk(host), bulk(&port.to_string()));
        vec![
            format!("{}{host_in_bulk}{}{port_in_bulk}", bulk("ip"), bulk("port")),
            format!("{host_in_bulk}:{port}\r\n"),
            format!(" {host}:{port}\r\n"),
        ]
    }

    fn push_mark(&self) -> Option<&'static str> {
        Some("subscribe")
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Store::open(url)?))
    }

    async fn counts(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        for master in self.servers.masters().await? {
            let info: String = master.ask(cmd("INFO").arg("commandstats")).await?;
            let calls = |commands: &[&str]| commands.iter().map(|command| calls(&info, command)).sum();
            let commands = calls(&["eval", "evalsha", "fcall"]);
            counts = counts + Counts { commands, signals: calls(&["publish", "spublish"]) };
        }
        Ok(counts)
    }

    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for master in self.servers.masters().await? {
            let mut connection = master.connect().await?;
            for key in keys::scan(&mut connection, namespace).await? {
                left.extend(keys::left_over(&mut connection, key).await?);
            }
            for pattern in keys::patterns(namespace) {
                let channels: Vec<String> =
                    ask(&mut connection, cmd("PUBSUB").arg("CHANNELS").arg(pattern)).await?;
                let is_open = |channel: &String| open.iter().any(|id| channel.ends_with(&id.to_string()));
                left.extend(channels.iter().filter(|channel| !is_open(channel)).map(|channel| {
                    format!("{channel} still has a subscriber, although its session is closed")
                }));
            }
        }
        Ok(left)
    }

    async fn forget(&self) -> Result<()> {
        for master in self.servers.masters().await? {
            master.ask::<()>(&cmd("FLUSHALL")).await?;
        }
        Ok(())
    }

    /// Users belong to each server: they are not replicated.
    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()> {
        let rights: &[&str] = if may_everything { &["~*", "&*", "+@all"] } else { &["-@all"] };
        for node in self.servers.all().await? {
            let mut command = cmd("ACL");
            command.arg("SETUSER").arg(user).arg("reset").arg("on").arg(format!(">{password}")).arg(rights);
            node.ask::<()>(&command).await?;
        }
        Ok(())
    }

    async fn remove_user(&self, user: &str) -> Result<()> {
        for node in self.servers.all().await? {
            node.ask::<i64>(cmd("ACL").arg("DELUSER").arg(user)).await?;
        }
        Ok(())
    }

    /// A master that is back at once has lost its data and is still master. If it stayed down longer, a replica would
    /// take over, which is a failover. So all servers are stopped.
    async fn members(&self, act: &Act, control: &Control) -> Result<Vec<String>> {
        if self.is_alone() {
            return Ok(vec![self.member().to_owned()]);
        }
        let nodes = match act {
            Act::Restart | Act::Crash => self.servers.masters().await?,
            Act::FallBehind | Act::FailOver => Vec::new(), // these choose their own servers
            Act::PauseHome(name) | Act::KillHome(name) => {
                self.servers.homes(std::slice::from_ref(name)).await?
            }
            _ => self.servers.all().await?,
        };
        failover::roles(&nodes, control).await
    }

    async fn settle(&self) -> Result<()> {
        self.servers.settle().await
    }

    async fn fall_behind(&self, control: &Control) -> Result<()> {
        self.servers.fall_behind(control).await
    }

    async fn fail_over(&self, namespace: &str, control: &Control) -> Result<()> {
        self.servers.fail_over(namespace, control).await
    }
}

/// How often a command was called: `cmdstat_evalsha:calls=12,usec=…`.
fn calls(info: &str, command: &str) -> u64 {
    let of = |line: &str| {
        let stats = line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(":calls=")?;
        stats.split(',').next()?.parse().ok()
    };
    info.lines().find_map(of).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_by_whole_names() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=1\r\ncmdstat_eval:calls=3,usec=1\r\n";
        assert_eq!((calls(info, "eval"), calls(info, "evalsha"), calls(info, "fcall")), (3, 12, 0));
    }
}
