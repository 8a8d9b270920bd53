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
use std::sync::atomic::{AtomicUsize, Ordering};

use tidelock_bench::{BareHandOff, Counts, Load, Place, Result, Subject, Twin};
use tidelock_core::{Locks, Options};
use tidelock_redis::Store;

use self::channel::Channel;
use self::monitor::Monitor;
use self::number::Number;
use self::pair::{How, Pair};
use self::server::Server;

/// What its URL looks like.
const LIKE: &str = "redis://127.0.0.1:6379";

/// A server, and the namespace of this run.
#[derive(Debug)]
struct Redis {
    place: Place,
    server: Server,
    /// The number of hand-offs so far: each has its own channels.
    hand_offs: AtomicUsize,
    /// `None` if nothing is counted: then the server has no monitor to write to.
    monitor: Option<Monitor>,
}

impl Redis {
    async fn open(place: Place) -> Result<Self> {
        let server = Server::at(place.url(LIKE)?).await?;
        Ok(Self { place, server, hand_offs: 0.into(), monitor: None })
    }

    /// The prefix of the keys of some of the bare commands.
    fn bare(&self, what: &str) -> String {
        format!("{}:bare:{what}:", self.place.namespace())
    }

    async fn pairs(&self, how: How, count: usize) -> Result<Vec<Pair>> {
        Pair::several(&self.server, how, &self.bare("pair"), count).await
    }
}

fn main() -> ExitCode {
    tidelock_bench::main(Redis::open)
}

impl Subject for Redis {
    type Bare = Pair;
    type BareHandOff = BareHandOff<Channel>;
    type Stock = Number;

    fn name(&self) -> &'static str {
        "redis"
    }

    fn twin(&self) -> &'static str {
        "bare scripts"
    }

    fn remarks(&self) -> Vec<String> {
        let remarks = [
            "The twin is two loaded scripts, an owner-checked SET NX PX and delete, over one multiplexed connection \
             of the redis crate with NODELAY. It has no line and no token, and does not renew.",
            "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one script that publishes, and \
             its subscriber's receipt on another connection.",
            "A command is a client's command, an event is a PUBLISH, bytes are those of both directions. The server \
             counts them.",
        ];
        remarks.map(str::to_owned).to_vec()
    }

    fn flags(&self) -> Result<Vec<String>, &'static str> {
        Ok(self.place.flags())
    }

    async fn client(&self) -> Result<Arc<dyn Locks>> {
        let options = Options::new().namespace(self.place.namespace());
        Ok(Store::open(self.place.url(LIKE)?)?.connect(options).await?)
    }

    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<Pair>>> {
        Ok(vec![
            Twin { called: self.twin(), tasks: self.pairs(How::Script, tasks).await? },
            Twin { called: "SET NX PX", tasks: self.pairs(How::Set, tasks).await? },
        ])
    }

    async fn bare_hot(&self, _: usize) -> Result<Vec<Pair>> {
        self.pairs(How::Script, 1).await
    }

    async fn bare_handoff(&self) -> Result<[BareHandOff<Channel>; 2]> {
        let number = self.hand_offs.fetch_add(1, Ordering::Relaxed);
        Channel::hand_offs(&self.server, &self.bare(&format!("baton:{number}"))).await
    }

    async fn bare_lock(&self) -> Result<Option<Pair>> {
        Ok(None)
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Number::new(&self.server, self.bare("stock"), number).await
    }

    async fn counted(&self) -> Result<Self> {
        let monitor = Some(Monitor::start(&self.server).await?);
        Ok(Self { monitor, ..Self::open(self.place.clone()).await? })
    }

    async fn counts(&self) -> Result<Counts> {
        match &self.monitor {
            Some(monitor) => monitor.counts().await,
            None => Ok(Counts::default()),
        }
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(Some(self.server.load().await?))
    }

    async fn clean(&self) -> Result<()> {
        self.server.remove(&format!("{}:", self.place.namespace())).await
    }
}
