//! ZooKeeper, beside its bare requests: the cost of a line, a place in it and a watch, compared with a node that is
//! made and deleted.

mod bare;
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use tidelock_bench::{BareHandOff, Counts, Load, Remote, Result, Site, Twin};
use tidelock_core::{Locks, Options};
use tidelock_zookeeper::Store;

use self::bare::{Number, Pair, Watched};
use self::server::{Meter, Server};

/// A server.
#[derive(Debug)]
struct ZooKeeper(Server);

fn main() -> ExitCode {
    tidelock_bench::main(Remote::<ZooKeeper>::open)
}

impl Site for ZooKeeper {
    const NAME: &'static str = "zookeeper";
    const TWIN: &'static str = "bare create + delete";
    const LIKE: &'static str = "zookeeper://127.0.0.1:2181";
    const REMARKS: &'static [&'static str] = &[
        "The twin makes an ephemeral node and deletes it, over one connection of the zookeeper-client crate for all \
         tasks. It has no line, and signals no waiter.",
        "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one write to a node, and the event \
         of it on another connection.",
        "A command is a packet that the server received, an event one that it sent without a request.",
    ];

    type Bare = Pair;
    type Signal = Watched;
    type Stock = Number;
    type Meter = Meter;

    async fn open(url: &str, namespace: &str) -> Result<Self> {
        Ok(Self(Server::at(url, &format!("/{namespace}-bare")).await?))
    }

    async fn client(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
        Ok(Store::open(url)?.connect(options).await?)
    }

    async fn bare(&self, tasks: usize) -> Result<Vec<Pair>> {
        let client = self.0.connect().await?;
        Ok((0..tasks).map(|number| Pair::new(&client, self.0.path(&format!("pair-{number}")))).collect())
    }

    async fn others(&self, _: usize) -> Result<Vec<Twin<Pair>>> {
        Ok(Vec::new())
    }

    async fn hand_off(&self, number: usize) -> Result<[BareHandOff<Watched>; 2]> {
        Watched::hand_offs(&self.0, number).await
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Number::new(&self.0, number).await
    }

    async fn meter(&self) -> Result<Meter> {
        self.0.meter().await
    }

    async fn counts(&self, meter: &Meter) -> Result<Counts> {
        self.0.counts(meter).await
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(None)
    }

    async fn clean(&self, namespace: &str) -> Result<()> {
        self.0.remove(&format!("/{namespace}")).await?;
        self.0.remove_all().await
    }
}
