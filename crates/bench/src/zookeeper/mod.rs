//! ZooKeeper, beside its bare requests: the cost of a line, a place in it and a watch, compared with a node that is
//! made and deleted.

mod bare;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidelock::{Locks, Options};
use tidelock_zookeeper::Store;

use self::bare::{Number, Pair, Watched};
use self::server::{Meter, Server};
use crate::Result;
use crate::baton::Baton;
use crate::count::Counts;
use crate::subject::{Load, Subject, Twin};

/// A server, and the namespace of this run.
#[derive(Debug)]
pub(crate) struct ZooKeeper {
    url: String,
    namespace: String,
    server: Server,
    /// The number of batons so far: each has its own nodes.
    batons: AtomicUsize,
    /// `None` if nothing is counted.
    meter: Option<Meter>,
}

impl ZooKeeper {
    pub(crate) async fn open(url: &str, namespace: &str) -> Result<Self> {
        let server = Server::at(url, &format!("/{namespace}-bare")).await?;
        Ok(Self {
            url: url.to_owned(),
            namespace: namespace.to_owned(),
            server,
            batons: 0.into(),
            meter: None,
        })
    }

    async fn pairs(&self, count: usize) -> Result<Vec<Pair>> {
        let client = self.server.connect().await?;
        Ok((0..count).map(|number| Pair::new(&client, self.server.path(&format!("pair-{number}")))).collect())
    }
}

impl Subject for ZooKeeper {
    type Bare = Pair;
    type Baton = Baton<Watched>;
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
        let flags = ["--backend", self.name(), "--url", &self.url, "--namespace", &self.namespace];
        Ok(flags.map(str::to_owned).to_vec())
    }

    async fn client(&self) -> Result<Arc<dyn Locks>> {
        let options = Options::new().namespace(&self.namespace);
        Ok(Store::open(&self.url)?.connect(options).await?)
    }

    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<Pair>>> {
        Ok(vec![Twin { called: self.twin(), tasks: self.pairs(tasks).await? }])
    }

    async fn bare_hot(&self, _: usize) -> Result<Vec<Pair>> {
        self.pairs(1).await
    }

    async fn bare_handoff(&self) -> Result<[Baton<Watched>; 2]> {
        let number = self.batons.fetch_add(1, Ordering::Relaxed);
        Watched::batons(&self.server, number).await
    }

    async fn bare_lock(&self) -> Result<Option<Pair>> {
        Ok(None)
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Number::new(&self.server, number).await
    }

    async fn counted(&self) -> Result<Self> {
        let counted = Self::open(&self.url, &self.namespace).await?;
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
        self.server.remove(&format!("/{}", self.namespace)).await?;
        self.server.remove_all().await
    }
}
