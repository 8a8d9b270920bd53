//! A Redis under trial.
//!
//! What it was asked is counted by the scripts it has run, for every request of a lock is one; what it told, by the
//! messages it has published. Keys and channels of a stage are found by its namespace.

use std::sync::Arc;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};
use tidelock::{Backend, Error, ErrorKind, Result, SessionId};
use tidelock_redis::Store;

use super::Site;
use crate::{Ability, Belief, Can, Cost, Counts, Mishap};

/// What an idle name may keep, for a while: its newest token, when that was last given an expiry, and until when
/// claims are void.
const REMEMBERED: [&str; 3] = ["last", "kept", "void"];

/// The site of one Redis.
#[derive(Debug)]
pub struct Redis {
    url: String,
    admin: redis::Client,
}

impl Redis {
    /// The Redis at that URL, whose user may do everything, an operator's commands too.
    ///
    /// # Errors
    /// When that is no URL of a Redis.
    pub fn at(url: &str) -> Result<Self> {
        Store::open(url)?; // it says best what is wrong with a URL
        let admin = redis::Client::open(url).map_err(trouble)?;
        Ok(Self { url: url.to_owned(), admin })
    }

    /// A connection for a few commands: each trial has a runtime of its own, which connections do not outlive.
    async fn connect(&self) -> Result<MultiplexedConnection> {
        self.admin.get_multiplexed_async_connection().await.map_err(trouble)
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        ask(&mut self.connect().await?, command).await
    }
}

async fn ask<T: FromRedisValue>(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<T> {
    command.query_async(connection).await.map_err(trouble)
}

fn trouble(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, "the suite's own connection to Redis").because(error)
}

#[async_trait]
impl Site for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn default_port(&self) -> u16 {
        6379
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "One server has the keys of a name, and its clock does not step.".into(),
            "A guard is looked at before each write: work that is under way when it is lost may still arrive.".into(),
            "The server evicts no keys of the namespace: `maxmemory-policy` is `noeviction`.".into(),
            "After the server has forgotten, its clock is not behind the newest grant: tokens then go by the clock."
                .into(),
        ]
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::EndSession => no("a session is its client's own: the server ends claims, one by one"),
            Ability::FailOver => no("a server alone has no replica"),
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
                may("whoever is stopped between looking at its guard and writing does not look again")
            }
            Mishap::Restart => may(
                "without persistence the server has forgotten, and its holders learn of it when they ask again",
            ),
            Mishap::Forgetting => may("holders learn of it at their next renewal"),
            Mishap::FailOver => Belief::CannotHappen("a server alone has no replica".into()),
            _ => may("claims expire by the server's clock, and guards by their clients'"),
        }
    }

    fn cost(&self) -> Cost {
        Cost { acquire: 1, release: 1, hand_off: 0, renewal: 1 }
    }

    fn member(&self) -> &'static str {
        "server"
    }

    fn push_mark(&self) -> Option<&'static str> {
        Some("subscribe")
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Store::open(url)?))
    }

    async fn counts(&self) -> Result<Counts> {
        let info: String = self.ask(cmd("INFO").arg("commandstats")).await?;
        let calls = |commands: &[&str]| commands.iter().map(|command| calls(&info, command)).sum();
        Ok(Counts {
            commands: calls(&["eval", "evalsha", "fcall"]),
            signals: calls(&["publish", "spublish"]),
        })
    }

    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        let mut connection = self.connect().await?;
        let mut left = Vec::new();
        for key in scan(&mut connection, namespace).await? {
            left.extend(left_over(&mut connection, key).await?);
        }
        for pattern in patterns(namespace) {
            let channels: Vec<String> =
                ask(&mut connection, cmd("PUBSUB").arg("CHANNELS").arg(pattern)).await?;
            let is_open = |channel: &String| open.iter().any(|id| channel.ends_with(&id.to_string()));
            left.extend(
                channels
                    .iter()
                    .filter(|channel| !is_open(channel))
                    .map(|channel| format!("somebody listens on {channel}, and its session is closed")),
            );
        }
        Ok(left)
    }

    async fn forget(&self) -> Result<()> {
        self.ask(&cmd("FLUSHALL")).await
    }

    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()> {
        let rights: &[&str] = if may_everything { &["~*", "&*", "+@all"] } else { &["-@all"] };
        self.ask(
            cmd("ACL")
                .arg("SETUSER")
                .arg(user)
                .arg("reset")
                .arg("on")
                .arg(format!(">{password}"))
                .arg(rights),
        )
        .await
    }

    async fn remove_user(&self, user: &str) -> Result<()> {
        self.ask::<i64>(cmd("ACL").arg("DELUSER").arg(user)).await.map(drop)
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

/// What the keys and channels of a stage begin with: its own namespace, or one within it.
fn patterns(namespace: &str) -> [String; 2] {
    [format!("{namespace}:*"), format!("{namespace}.*")]
}

async fn scan(connection: &mut MultiplexedConnection, namespace: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for pattern in patterns(namespace) {
        let mut cursor = String::from("0");
        loop {
            let page = cmd("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000).to_owned();
            let (next, keys): (String, Vec<String>) = ask(connection, &page).await?;
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(found)
}

/// What is wrong with a key that is there after everyone has left.
async fn left_over(connection: &mut MultiplexedConnection, key: String) -> Result<Option<String>> {
    let ttl: i64 = ask(connection, cmd("PTTL").arg(&key)).await?;
    let part = key.rsplit(':').next().unwrap_or_default();
    let is_in_use = match part {
        "held" => {
            let fields: Vec<String> = ask(connection, cmd("HKEYS").arg(&key)).await?;
            fields.iter().any(|field| !REMEMBERED.contains(&field.as_str()))
        }
        "line" | "wait" => true,
        _ => false,
    };
    Ok(match (is_in_use, ttl) {
        (_, -2) => None, // it has gone meanwhile
        (true, _) => Some(format!("{key} is there: somebody stands in line")),
        (false, -1) => Some(format!("{key} is there, and never expires")),
        (false, _) => None,
    })
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
