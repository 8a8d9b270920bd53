//! ZooKeeper, beside its bare requests: the cost of a line, a place in it and a watch, compared with a node that is
//! made and deleted.

mod bare;
mod server;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidelock_bench::{BareHandOff, Counts, Load, Place, Result, Subject, Twin};
use tidelock_core::{Locks, Options};
use tidelock_zookeeper::Store;

use self::bare::{Number, Pair, Watched};
use self::server::{Meter, Server};

/// What its URL looks like.
const LIKE: &str = "zookeeper://127.0.0.1:2181";

/// A server, and the namespace of this run.
#[derive(Debug)]
struct ZooKeeper {
    place: Place,
    server: Server,
    /// The number of hand-offs so far: each has its own nodes.
    hand_offs: AtomicUsize,
    /// `None` if nothing is counted.
    meter: Option<Meter>,
}

impl ZooKeeper {
    async fn open(place: Place) -> Result<Self> {
        let server = Server::at(place.url(LIKE)?, &format!("/{}-bare", place.namespace())).await?;
        Ok(Self { place, server, hand_offs: 0.into(), meter: None })
    }

    async fn pairs(&self, count: usize) -> Result<Vec<Pair>> {
        let client = self.server.connect().await?;
        Ok((0..count).map(|number| Pair::new(&client, self.server.path(&format!("pair-{number}")))).collect())
    }
}

fn main() -> ExitCode {
    tidelock_bench::main(ZooKeeper::open)
}

impl Subject for ZooKeeper {
    type Bare = Pair;
    type BareHandOff = BareHandOff<Watched>;
    type Stock = Number;

    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn twin(&self) -> &'static str {
        "bare create + delete"
    }

    fn remarks(&self) -> Vec<String> {
        let remarks = [
            "The twin makes an ephemeral node and deletes it, over one connection of the zookeeper-client crate for \
             all tasks. It has no line, and signals no waiter.",
            "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one write to a node, and the \
             event of it on another connection.",
            "A command is a packet that the server received, an event one that it sent without a request.",
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
        Ok(vec![Twin { called: self.twin(), tasks: self.pairs(tasks).await? }])
    }

    async fn bare_hot(&self, _: usize) -> Result<Vec<Pair>> {
        self.pairs(1).await
    }

    async fn bare_handoff(&self) -> Result<[BareHandOff<Watched>; 2]> {
        let number = self.hand_offs.fetch_add(1, Ordering::Relaxed);
        Watched::hand_offs(&self.server, number).await
    }

    async fn bare_lock(&self) -> Result<Option<Pair>> {
        Ok(None)
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Number::new(&self.server, number).await
    }

    async fn counted(&self) -> Result<Self> {
        let counted = Self::open(self.place.clone()).await?;
        let meter = Some(counted.server.meter().await?);
        Ok(Self { meter, ..counted })
    }

    async fn counts(&self) -> Result<Counts> {
        match &self.meter {
            Some(meter) => self.server.counts(meter).await,
            None => Ok(Counts::default()),
        }
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(None)
    }

    async fn clean(&self) -> Result<()> {
        self.server.remove(&format!("/{}", self.place.namespace())).await?;
        self.server.remove_all().await
    }
}
