//! etcd, beside its bare requests: the cost of a line, a place in it and a watch, compared with a key that is made and
//! deleted.

mod bare;
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use tidelock_bench::{BareHandOff, Counts, Load, Remote, Result, Site, Twin};
use tidelock_core::{Locks, Options};
use tidelock_etcd::Store;

use self::bare::{Number, Pair, Watched};
use self::server::Server;

/// A server.
#[derive(Debug)]
struct Etcd(Server);

fn main() -> ExitCode {
    tidelock_bench::main(Remote::<Etcd>::open)
}

impl Site for Etcd {
    const NAME: &'static str = "etcd";
    const TWIN: &'static str = "bare create + delete";
    const LIKE: &'static str = "etcd://127.0.0.1:2379";
    const REMARKS: &'static [&'static str] = &[
        "The twin makes a key by a transaction that compares that it is not there, and deletes it, over one \
         connection of the etcd-client crate for all tasks. It has no line, and signals no waiter.",
        "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one write to a key, and the event \
         of it on another connection.",
        "A command is a request to the key-value service, an event one that the server sent to a watch.",
    ];

    type Bare = Pair;
    type Signal = Watched;
    type Stock = Number;
    type Meter = ();

    async fn open(url: &str, namespace: &str) -> Result<Self> {
        Ok(Self(Server::at(url, &format!("{namespace}-bare/")).await?))
    }

    async fn client(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
        Ok(Store::open(url)?.connect(options).await?)
    }

    async fn bare(&self, tasks: usize) -> Result<Vec<Pair>> {
        let client = self.0.connect().await?;
        Ok((0..tasks).map(|number| Pair::new(&client, self.0.key(&format!("pair-{number}")))).collect())
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

    async fn meter(&self) -> Result<()> {
        Ok(())
    }

    async fn counts(&self, (): &()) -> Result<Counts> {
        self.0.counts().await
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(None)
    }

    async fn clean(&self, namespace: &str) -> Result<()> {
        self.0.remove(&format!("{namespace}/")).await?;
        self.0.remove_all().await
    }
}
