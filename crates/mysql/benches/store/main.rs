//! MySQL or MariaDB, beside its bare statements: the cost of a line and its waking, compared with a row that is
//! inserted and deleted.

mod bare;

use std::process::ExitCode;
use std::sync::Arc;

use tidelock_bench::{BareHandOff, Counts, Load, Remote, Result, Site, Twin};
use tidelock_core::{Locks, Options};
use tidelock_mysql::Store;

use self::bare::{Pair, Server, Signal, Stock};

/// A server.
#[derive(Debug)]
struct MySql(Server);

fn main() -> ExitCode {
    tidelock_bench::main(Remote::<MySql>::open)
}

impl Site for MySql {
    const NAME: &'static str = "mysql";
    const TWIN: &'static str = "INSERT + DELETE of one row";
    const LIKE: &'static str = "mysql://root@127.0.0.1:3306/scratch";
    const REMARKS: &'static [&'static str] = &[
        "The twin inserts a row and deletes it, each committed by itself, on a connection of its own for each task. It \
         has no line, and signals no waiter.",
        "The twin of `hot` and `procs` is one task's pairs. That of a hand-off is one such pair, and a wake within the \
         process.",
        "GET_LOCK writes nothing: no token, no line, and it is lost with its connection.",
        "A command is a statement that the server counted; one transaction of ours has about ten.",
    ];

    type Bare = Pair;
    type Signal = Signal;
    type Stock = Stock;
    type Meter = ();

    async fn open(url: &str, namespace: &str) -> Result<Self> {
        Ok(Self(Server::at(url, namespace).await?))
    }

    async fn client(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
        Ok(Store::open(url)?.connect(options).await?)
    }

    async fn bare(&self, tasks: usize) -> Result<Vec<Pair>> {
        self.0.pairs(tasks, false).await
    }

    async fn others(&self, tasks: usize) -> Result<Vec<Twin<Pair>>> {
        Ok(vec![Twin { called: "GET_LOCK", tasks: self.0.pairs(tasks, true).await? }])
    }

    async fn hand_off(&self, _: usize) -> Result<[BareHandOff<Signal>; 2]> {
        self.0.hand_offs().await
    }

    async fn stock(&self, number: u32) -> Result<Stock> {
        self.0.stock(number).await
    }

    async fn meter(&self) -> Result<()> {
        Ok(())
    }

    async fn counts(&self, (): &()) -> Result<Counts> {
        Ok(Counts { commands: Some(self.0.statements().await?), ..Counts::default() })
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(None)
    }

    async fn clean(&self, namespace: &str) -> Result<()> {
        self.0.clean(namespace).await
    }
}
