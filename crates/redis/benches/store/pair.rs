//! The twins of one take and one give-back: two commands over a connection that others may share.
//!
//! The commands are prepared as far as possible: the scripts are loaded, and the requests are encoded.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};
use tidelock_bench::{Exclusion, Result};

use super::server::Server;

const TTL_MS: u32 = 15_000;

/// Sets the key, or finds it set by the same owner. So a command whose reply was lost can be repeated.
const TAKE: &str = "\
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0";

/// Deletes the key if this owner set it.
const GIVE_BACK: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// How a name is taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// By a script that checks the owner.
    Script,
    /// By `SET NX PX`.
    Set,
}

#[derive(Clone, Debug)]
pub(crate) struct Pair {
    connection: MultiplexedConnection,
    take: Arc<Cmd>,
    give_back: Arc<Cmd>,
}

impl Pair {
    /// This many pairs on one connection, each with its own key with this prefix.
    pub(super) async fn several(server: &Server, how: How, prefix: &str, count: usize) -> Result<Vec<Self>> {
        let connection = server.connection().await?;
        let (take, give_back) = (server.load_script(TAKE).await?, server.load_script(GIVE_BACK).await?);
        let pair = |number: usize| {
            let (key, owner) = (format!("{prefix}{number}"), format!("owner-{number:010}"));
            let script = |sha: &str| cmd("EVALSHA").arg(sha).arg(1).arg(&key).arg(&owner).take();
            let take = match how {
                How::Script => script(&take).arg(TTL_MS).take(),
                How::Set => cmd("SET").arg(&key).arg(&owner).arg("NX").arg("PX").arg(TTL_MS).take(),
            };
            Self { connection: connection.clone(), take: take.into(), give_back: script(&give_back).into() }
        };
        Ok((0..count).map(pair).collect())
    }

    /// Whether the server answers 1 or OK.
    async fn is_done(&self, command: &Cmd) -> Result<bool> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }
}

impl Exclusion for Pair {
    type Held = ();

    async fn take(&self) -> Result<()> {
        let took = self.is_done(&self.take).await?;
        took.then_some(()).ok_or_else(|| "another owner holds the bare key".into())
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        let gave = self.is_done(&self.give_back).await?;
        gave.then_some(()).ok_or_else(|| "another owner has the bare key".into())
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // nobody waits: taking succeeds at once or fails
    }
}
