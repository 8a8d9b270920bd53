//! Redis, beside its bare commands: the cost of a line, a lease and a token, compared with a script that sets one key.

mod channel;
#[cfg_attr(test, allow(unused_imports))] // its unit tests run in tests/bench.rs
mod monitor;
mod number;
mod pair;
#[cfg_attr(test, allow(unused_imports))] // so do these
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use tidelock_bench::{BareHandOff, Counts, Load, Remote, Result, Site, Twin};
use tidelock_core::{Locks, Options};
use tidelock_redis::Store;

use self::channel::Channel;
use self::monitor::Monitor;
use self::number::Number;
use self::pair::{How, Pair};
use self::server::Server;

/// A server, and the prefix of the keys of the bare commands.
#[derive(Debug)]
struct Redis {
    server: Server,
    bare: String,
}

fn main() -> ExitCode {
    tidelock_bench::main(Remote::<Redis>::open)
}

impl Redis {
    async fn pairs(&self, how: How, count: usize) -> Result<Vec<Pair>> {
        Pair::several(&self.server, how, &format!("{}:pair:", self.bare), count).await
    }
}

impl Site for Redis {
    const NAME: &'static str = "redis";
    const TWIN: &'static str = "bare scripts";
    const LIKE: &'static str = "redis://127.0.0.1:6379";
    const REMARKS: &'static [&'static str] = &[
        "The twin is two loaded scripts, an owner-checked SET NX PX and delete, over one multiplexed connection of \
         the redis crate with NODELAY. It has no line and no token, and does not renew.",
        "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one script that publishes, and its \
         subscriber's receipt on another connection.",
        "A command is a client's command, an event is a PUBLISH, bytes are those of both directions. The server \
         counts them.",
    ];

    type Bare = Pair;
    type Signal = Channel;
    type Stock = Number;
    type Meter = Monitor;

    async fn open(url: &str, namespace: &str) -> Result<Self> {
        Ok(Self { server: Server::at(url).await?, bare: format!("{namespace}:bare") })
    }

    async fn client(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
        Ok(Store::open(url)?.connect(options).await?)
    }

    async fn bare(&self, tasks: usize) -> Result<Vec<Pair>> {
        self.pairs(How::Script, tasks).await
    }

    async fn others(&self, tasks: usize) -> Result<Vec<Twin<Pair>>> {
        Ok(vec![Twin { called: "SET NX PX", tasks: self.pairs(How::Set, tasks).await? }])
    }

    async fn hand_off(&self, number: usize) -> Result<[BareHandOff<Channel>; 2]> {
        Channel::hand_offs(&self.server, &format!("{}:baton:{number}:", self.bare)).await
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Number::new(&self.server, format!("{}:stock:", self.bare), number).await
    }

    async fn meter(&self) -> Result<Monitor> {
        Monitor::start(&self.server).await
    }

    async fn counts(&self, monitor: &Monitor) -> Result<Counts> {
        monitor.counts().await
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(Some(self.server.load().await?))
    }

    async fn clean(&self, namespace: &str) -> Result<()> {
        self.server.remove(&format!("{namespace}:")).await
    }
}
