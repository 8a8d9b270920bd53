//! Sentinels: they are asked who is master, each time a connection is made.
//!
//! All of them are asked at once, so that one that is paused delays nobody. Of the answers that come in time the one
//! of the latest election counts, and whom it names must call itself master.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, PushInfo, RedisError, RedisResult, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::dial::{Dial, Target};
use crate::reply;

/// The sentinels of one master.
#[derive(Debug)]
pub(crate) struct Sentinels {
    sentinels: Vec<Target>,
    master: String,
    /// How its servers are connected to, but for the address.
    server: Target,
}

/// What a sentinel says.
struct Said {
    host: String,
    port: u16,
    /// Which election made it master.
    epoch: u64,
}

impl Sentinels {
    pub(crate) fn new(sentinels: Vec<Target>, master: String, server: Target) -> Self {
        Self { sentinels, master, server }
    }

    /// Who is master by the latest election that more than half of the sentinels, or all that answer, know of.
    async fn find(&self, within: Duration) -> RedisResult<Target> {
        let mut asking = JoinSet::new();
        for sentinel in &self.sentinels {
            asking.spawn(ask(sentinel.clone(), self.master.clone(), within));
        }
        let (mut newest, mut answers, mut trouble) = (None, 0, None);
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok(Ok(said)) => {
                    answers += 1;
                    newest = newest.into_iter().chain([said]).max_by_key(|said: &Said| said.epoch);
                }
                Ok(Err(error)) => trouble = Some(error),
                Err(_) => {}
            }
            if answers * 2 > self.sentinels.len() {
                break;
            }
        }
        let Some(said) = newest else {
            return Err(trouble.unwrap_or_else(|| unknown("no sentinel answered")));
        };
        Ok(self.server.at(said.host, said.port))
    }
}

#[async_trait]
impl Dial for Sentinels {
    async fn dial(
        &self,
        within: Duration,
        pushes: UnboundedSender<PushInfo>,
    ) -> RedisResult<MultiplexedConnection> {
        // A sentinel that does not answer may take half of the time at most.
        let server = self.find(within / 2).await?;
        let mut connection = server.dial(within, pushes).await?;
        let role: Value = redis::cmd("ROLE").query_async(&mut connection).await?;
        match reply::parts(&role).first().and_then(reply::text) {
            Some("master") => Ok(connection),
            _ => Err(unknown("whom the sentinels name is not master yet")),
        }
    }

    fn place(&self) -> String {
        format!("Redis master {:?}", self.master)
    }
}

async fn ask(sentinel: Target, master: String, within: Duration) -> RedisResult<Said> {
    let mut connection = sentinel.briefly(within).await?;
    let mut command = redis::cmd("SENTINEL");
    let said: HashMap<String, String> =
        command.arg("MASTER").arg(&master).query_async(&mut connection).await?;
    let number = |field: &str| said.get(field)?.parse::<u64>().ok();
    let known = || {
        let port = u16::try_from(number("port")?).ok()?;
        Some(Said { host: said.get("ip")?.clone(), port, epoch: number("config-epoch")? })
    };
    known().ok_or_else(|| unknown("a sentinel does not say where the master is"))
}

fn unknown(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Io, what))
}
