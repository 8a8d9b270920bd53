//! One server, with the two ways to it.
//!
//! What users ask goes down one connection, in order, so that a leave never overtakes its join, and on it the server's
//! news are heard; renewals go down another, so that no crowd delays them.

use std::sync::Arc;

use tidelock::Shard;
use tokio::runtime::Handle;

use crate::dial::Dial;
use crate::link::{Link, Patience};
use crate::news::News;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shard: Shard,
    pub(crate) commands: Link,
    pub(crate) renewals: Link,
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
        Ok(Self { shard: Shard(0), commands, renewals: renewals(dial, reach) })
    }

    /// Connects when something is asked for the first time.
    #[cfg(feature = "cluster")]
    pub(crate) fn lazy(shard: Shard, dial: Arc<dyn Dial>, reach: &Reach) -> Self {
        let (news, channel) = (reach.news.clone(), Some(reach.channel.clone()));
        let commands = Link::lazy(dial.clone(), news, channel, reach.patience, &reach.runtime);
        Self { shard, commands, renewals: renewals(dial, reach) }
    }
}

fn renewals(dial: Arc<dyn Dial>, reach: &Reach) -> Link {
    Link::lazy(dial, reach.news.clone(), None, reach.patience, &reach.runtime)
}
