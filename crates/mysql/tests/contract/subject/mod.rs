//! A MySQL or a MariaDB under trial.
//!
//! Every client's requests pass through a gate in this process, which reads and counts them. A request is one round
//! trip, however many statements it has. The statement that sleeps in the server until the bell rings is not counted:
//! there are twenty a second while a client waits, whatever happens. Nor are renewals and cleaning up, which come at
//! fixed intervals. A look after the bell counts as a request and as a signal.

mod gate;
mod operator;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_conformance::subjects::Site;
use tidelock_conformance::{Ability, Belief, Can, Cost, Counts, Mishap};
use tidelock_core::backend::Backend;
use tidelock_core::{Error, ErrorKind, Result, SessionId};
use tidelock_mysql::Store;

use self::gate::Gate;
use self::operator::Operator;

/// The site of one database.
#[derive(Debug)]
pub(crate) struct MySql {
    url: String,
    gate: Gate,
    operator: Operator,
}

impl MySql {
    /// The database at that URL. Its user must be allowed to create and drop users. The URL is one that [`Store::open`]
    /// accepts.
    ///
    /// # Errors
    /// If it is not a URL of a database, or there is no free port for a gate.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Store::open(url)?; // its error for a bad URL is the best one
        let strange =
            || Error::new(ErrorKind::InvalidOption, "the suite needs a URL mysql://USER@HOST:PORT/DATABASE");
        let (_, rest) = url.split_once("://").ok_or_else(strange)?;
        let (place, _) = rest.split_once('/').ok_or_else(strange)?;
        let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:3306") };
        let gate = Gate::open(&host)
            .map_err(|error| Error::new(ErrorKind::Unavailable, "no free port for a gate").because(error))?;
        Ok(Self { url: url.to_owned(), gate, operator: Operator::at(url)? })
    }

    /// The URL with the gate in place of the server.
    fn gated(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("mysql", &self.url));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let who = place.rsplit_once('@').map_or(String::new(), |(who, _)| format!("{who}@"));
        // Packets that are encrypted cannot be counted.
        let with = if database.contains('?') { "" } else { "?ssl-mode=DISABLED" };
        format!("{scheme}://{who}{}/{database}{with}", self.gate.address())
    }
}

#[async_trait]
impl Site for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn default_port(&self) -> u16 {
        3_306
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "The server's clock does not step.".into(),
            "The caller checks its guard before each write: a write that is already on its way when the guard is \
             lost may still arrive."
                .into(),
            "Committed transactions survive: `innodb_flush_log_at_trx_commit` is 1, which is the default.".into(),
            "Only Tidelock writes to its tables.".into(),
        ]
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::EndSession => no("an operator evicts claims, not sessions"),
            Ability::FailOver => no("a single server has no replica"),
            Ability::Spread => no("all names are in one database"),
            Ability::Agree => no("there is only one server"),
            Ability::CutPush => {
                no("what is told twenty times a second is not told by a connection of its own")
            }
            _ => Can::Yes,
        }
    }

    fn belief(&self, mishap: Mishap) -> Belief {
        let may = |why: &str| Belief::MayOverlap(why.to_owned());
        match mishap {
            Mishap::Eviction => may("an evicted holder learns of it at its next renewal"),
            Mishap::StoppedClient => {
                may("a client stopped between checking its guard and writing does not check again")
            }
            Mishap::Forgetting => may("holders learn of it at their next renewal"),
            Mishap::FailOver => Belief::CannotHappen("a single server has no replica".into()),
            Mishap::ClockStep => may("claims expire by the server's clock, guards by their clients' clocks"),
            _ => Belief::NeverOverlaps, // a restart keeps all rows
        }
    }

    /// Each renewal is a write to the server's disk, and on a busy machine a disk can take most of a second.
    fn ttl(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// A line that has had waiters costs the same.
    fn cost(&self) -> Cost {
        Cost { acquire: 1, release: 1, hand_off: 1, renewal: 0 }
    }

    fn member(&self) -> &'static str {
        "server"
    }

    async fn settle(&self) -> Result<()> {
        self.operator.settle().await
    }

    fn push_mark(&self) -> Option<&'static str> {
        None
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>> {
        let gated = self.gated();
        Ok(Arc::new(Store::open(if url == self.url { &gated } else { url })?))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.gate.counts())
    }

    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        self.operator.leftovers(namespace, open).await
    }

    async fn forget(&self) -> Result<()> {
        self.operator.forget().await
    }

    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()> {
        self.operator.add_user(user, password, may_everything).await
    }

    async fn remove_user(&self, user: &str) -> Result<()> {
        self.operator.remove_user(user).await
    }
}
