//! The servers that a session's names lie on: one, or the masters of a cluster.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use redis::{Cmd, Value};
use tidelock_core::Name;
use tidelock_core::backend::{Reply, Shard};

use crate::link::WhenDropped;
use crate::server::Server;
use crate::trouble;

#[async_trait]
pub(crate) trait Fleet: Debug + Send + Sync {
    /// The server that has this name, as far as is known.
    fn shard(&self, name: &Name) -> Shard;

    /// The server of a shard, if it is still one of them.
    fn of_shard(&self, shard: Shard) -> Option<Arc<Server>>;

    /// Reports that something is wrong with one of the servers. The fleet then finds out where its names are now.
    fn doubt(&self);

    /// Finds out which connections are dead, of those on which nothing was heard since the last time.
    fn beat(&self);

    /// All servers that have names now, as far as can be found out.
    async fn all(&self) -> Vec<Arc<Server>>;

    /// Sends a command to the server that has this name. It is in that server's queue when this returns.
    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value>;
}

/// A single server that has every name.
#[derive(Debug)]
pub(crate) struct SingleServer(pub(crate) Arc<Server>);

#[async_trait]
impl Fleet for SingleServer {
    fn shard(&self, _: &Name) -> Shard {
        self.0.shard
    }

    fn of_shard(&self, _: Shard) -> Option<Arc<Server>> {
        Some(self.0.clone())
    }

    fn doubt(&self) {} // the next connection finds out where the server is

    fn beat(&self) {
        self.0.commands.beat();
    }

    async fn all(&self) -> Vec<Arc<Server>> {
        vec![self.0.clone()]
    }

    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let (server, reply) = (self.0.clone(), self.0.ask(name, command, when_dropped));
        Box::pin(async move { trouble::checked(reply.await?, server.commands.place()) })
    }
}
