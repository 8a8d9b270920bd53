//! The servers that a session's names lie on: one, or the masters of a cluster.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use redis::{Cmd, Value};
use tidelock::{Name, Reply, Shard};

use crate::link::WhenDropped;
use crate::server::Server;
use crate::trouble;

#[async_trait]
pub(crate) trait Fleet: Debug + Send + Sync {
    /// Which of the servers has this name, as far as is known.
    fn shard(&self, name: &Name) -> Shard;

    /// The server of a shard, if it is still one of them.
    fn of_shard(&self, shard: Shard) -> Option<Arc<Server>>;

    /// Something is wrong with one of the servers: whoever knows better where its names are now is asked.
    fn doubt(&self);

    /// All that have names now, as far as can be found out.
    async fn all(&self) -> Vec<Arc<Server>>;

    /// Asks the server that has this name: it lies in the queue there when this returns.
    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value>;
}

/// One server has everything.
#[derive(Debug)]
pub(crate) struct Alone(pub(crate) Arc<Server>);

#[async_trait]
impl Fleet for Alone {
    fn shard(&self, _: &Name) -> Shard {
        self.0.shard
    }

    fn of_shard(&self, _: Shard) -> Option<Arc<Server>> {
        Some(self.0.clone())
    }

    fn doubt(&self) {} // whoever connects anew finds out where it is

    async fn all(&self) -> Vec<Arc<Server>> {
        vec![self.0.clone()]
    }

    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let (server, reply) = (self.0.clone(), self.0.ask(name, command, when_dropped));
        Box::pin(async move { trouble::checked(reply.await?, server.commands.place()) })
    }
}
