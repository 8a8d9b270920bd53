//! One server, with the ways to it.
//!
//! On the keeper's runtime lie two: one for questions, on which the server's news are heard too, and one for renewals,
//! so that no crowd delays them. A runtime that asks often has one more, of its own.

use std::sync::Arc;

use redis::{Cmd, Value};
use tidelock::{Reply, Shard};
use tokio::runtime::Handle;

use crate::dial::Dial;
use crate::fleet::WhenDropped;
use crate::link::{Link, Patience};
use crate::local::Locals;
use crate::news::News;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shard: Shard,
    pub(crate) commands: Arc<Link>,
    pub(crate) renewals: Link,
    locals: Locals,
}

/// What every server of a session is reached with.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) news: Arc<News>,
    /// On which channel news are heard.
    pub(crate) channel: String,
    pub(crate) patience: Patience,
    pub(crate) runtime: Handle,
}

impl Server {
    /// Connects now.
    pub(crate) async fn connect(dial: Arc<dyn Dial>, reach: &Reach) -> tidelock::Result<Self> {
        let (news, channel) = (reach.news.clone(), Some(reach.channel.clone()));
        let commands = Link::connect(dial.clone(), news, channel, reach.patience).await?;
        Ok(Self::new(Shard(0), commands, dial, reach))
    }

    /// Connects when something is asked for the first time.
    #[cfg(feature = "cluster")]
    pub(crate) fn lazy(shard: Shard, dial: Arc<dyn Dial>, reach: &Reach) -> Self {
        let (news, channel) = (reach.news.clone(), Some(reach.channel.clone()));
        let commands = Link::lazy(dial.clone(), news, channel, reach.patience, &reach.runtime);
        Self::new(shard, commands, dial, reach)
    }

    fn new(shard: Shard, commands: Link, dial: Arc<dyn Dial>, reach: &Reach) -> Self {
        let news = reach.news.clone();
        let renewals = Link::lazy(dial.clone(), news, None, reach.patience, &reach.runtime);
        Self { shard, commands: Arc::new(commands), renewals, locals: Locals::new(dial, reach.clone()) }
    }

    /// Asks one thing, by the shortest way from here; it lies in a queue when this returns. An error of the server's is
    /// an answer.
    pub(crate) fn ask(&self, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        match self.locals.mine() {
            Some(way) => way.ask(command, when_dropped, &self.commands),
            None => Box::pin(self.commands.ask(command, when_dropped)),
        }
    }
}
