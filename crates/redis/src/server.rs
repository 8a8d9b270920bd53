//! One server, with the ways to it.
//!
//! On the keeper's runtime lie two: one for questions, on which the server's news are heard too, and one for renewals,
//! so that no crowd delays them. A runtime that asks often has one more, of its own. What blocks a connection has
//! another for itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Value};
use tidelock::{Name, Reply, Shard};

use crate::dial::Dial;
use crate::link::{Link, Reach, WhenDropped};
use crate::local::Locals;
use crate::pace::Pace;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shard: Shard,
    pub(crate) commands: Arc<Link>,
    pub(crate) renewals: Link,
    pub(crate) pace: Mutex<Pace>,
    locals: Locals,
    dial: Arc<dyn Dial>,
    /// Whether anything was asked since we looked around.
    was_asked: AtomicBool,
    /// How it is reached by what hears no news.
    quiet: Reach,
}

impl Server {
    /// Connects now, for renewals too: the first of them is not to wait until that is done.
    pub(crate) async fn connect(dial: Arc<dyn Dial>, reach: Reach) -> tidelock::Result<Self> {
        let quiet = Reach { channel: None, ..reach.clone() };
        let commands = Link::connect(dial.clone(), reach);
        let renewals = Link::connect(dial.clone(), quiet.for_renewals());
        let (commands, renewals) = tokio::try_join!(commands, renewals)?;
        Ok(Self::new(Shard(0), commands, renewals, dial, quiet))
    }

    /// Connects when something is asked for the first time.
    #[cfg(feature = "cluster")]
    pub(crate) fn lazy(shard: Shard, dial: Arc<dyn Dial>, reach: Reach) -> Self {
        let quiet = Reach { channel: None, ..reach.clone() };
        let commands = Link::lazy(dial.clone(), reach);
        let renewals = Link::lazy(dial.clone(), quiet.for_renewals());
        Self::new(shard, commands, renewals, dial, quiet)
    }

    fn new(shard: Shard, commands: Link, renewals: Link, dial: Arc<dyn Dial>, quiet: Reach) -> Self {
        let locals = Locals::new(dial.clone(), quiet.clone());
        let was_asked = AtomicBool::new(true);
        let pace = Mutex::default();
        Self { shard, commands: Arc::new(commands), renewals, pace, locals, dial, was_asked, quiet }
    }

    /// One more way, for what may take so much longer than a command. It connects when it is asked for the first time.
    pub(crate) fn slow_way(&self, longer: Duration) -> Link {
        let patience = self.quiet.patience.longer(longer);
        Link::lazy(self.dial.clone(), Reach { patience, ..self.quiet.clone() })
    }

    /// Has whoever knows better asked whether this is still the server to connect to: if anything is believed of it, or
    /// may have been granted since the last time.
    pub(crate) fn look_around(&self, is_believed: bool) {
        let was_asked = self.was_asked.swap(false, Ordering::AcqRel);
        if is_believed || was_asked {
            self.dial.look_around(self.quiet.patience.renewal);
        }
    }

    /// Asks one thing of a name, by the shortest way from here; it lies in a queue when this returns. An error of the
    /// server's is an answer.
    pub(crate) fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        self.was_asked.store(true, Ordering::Release);
        match self.locals.mine() {
            Some(way) => way.ask(name, command, when_dropped),
            None => Box::pin(self.commands.ask(command, when_dropped)),
        }
    }
}
