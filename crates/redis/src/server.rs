//! One server, with the connections to it.
//!
//! Two of them are on the keeper's runtime: one for commands, which also receives the server's news, and one for
//! renewals, so that a crowd of commands cannot delay renewals. A runtime that sends many requests has one more, of its
//! own. Commands that block a connection get a separate one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Value};
use tidelock_core::Name;
use tidelock_core::backend::{Reply, Shard};

use crate::dial::Dial;
use crate::link::{Link, Settings, WhenDropped};
use crate::local::LocalConnections;
use crate::pace::Pace;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shard: Shard,
    pub(crate) commands: Arc<Link>,
    pub(crate) renewals: Link,
    pub(crate) pace: Mutex<Pace>,
    locals: LocalConnections,
    dial: Arc<dyn Dial>,
    /// Whether anything was sent since the last `look_around`.
    was_asked: AtomicBool,
    /// The settings of connections that receive no news.
    quiet: Settings,
}

impl Server {
    /// Connects now, for renewals too: the first renewal must not wait for a connection.
    pub(crate) async fn connect(dial: Arc<dyn Dial>, settings: Settings) -> tidelock_core::Result<Self> {
        let quiet = Settings { channel: None, ..settings.clone() };
        let commands = Link::connect(dial.clone(), settings);
        let renewals = Link::connect(dial.clone(), quiet.for_renewals());
        let (commands, renewals) = tokio::try_join!(commands, renewals)?;
        Ok(Self::new(Shard(0), commands, renewals, dial, quiet))
    }

    /// Connects when the first command is sent.
    #[cfg(feature = "cluster")]
    pub(crate) fn lazy(shard: Shard, dial: Arc<dyn Dial>, settings: Settings) -> Self {
        let quiet = Settings { channel: None, ..settings.clone() };
        let commands = Link::lazy(dial.clone(), settings);
        let renewals = Link::lazy(dial.clone(), quiet.for_renewals());
        Self::new(shard, commands, renewals, dial, quiet)
    }

    fn new(shard: Shard, commands: Link, renewals: Link, dial: Arc<dyn Dial>, quiet: Settings) -> Self {
        let locals = LocalConnections::new(dial.clone(), quiet.clone());
        let was_asked = AtomicBool::new(true);
        let pace = Mutex::default();
        Self { shard, commands: Arc::new(commands), renewals, pace, locals, dial, was_asked, quiet }
    }

    /// One more connection, for commands that may take longer than usual by `longer`. Connects when the first command
    /// is sent.
    pub(crate) fn slow_link(&self, longer: Duration) -> Link {
        let timeouts = self.quiet.timeouts.longer(longer);
        Link::lazy(self.dial.clone(), Settings { timeouts, ..self.quiet.clone() })
    }

    /// Asks sentinels, if there are any, whether this is still the server to connect to. Does nothing if no claim
    /// stands here and nothing can have been granted since the last time.
    pub(crate) fn look_around(&self, is_believed: bool) {
        let was_asked = self.was_asked.swap(false, Ordering::AcqRel);
        if is_believed || was_asked {
            self.dial.look_around(self.quiet.timeouts.renewal);
        }
    }

    /// Sends a command about a name, on the calling runtime's own connection if it has one. The command is in a queue
    /// when this returns. An error reply of the server is an `Ok` value.
    pub(crate) fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        self.was_asked.store(true, Ordering::Release);
        match self.locals.mine() {
            Some(local) => local.ask(name, command, when_dropped),
            None => Box::pin(self.commands.ask(command, when_dropped)),
        }
    }
}
