//! A ZooKeeper under trial: a single server, or an ensemble.
//!
//! Every client's requests pass through a gate in this process, which reads and counts them. Requests that only keep a
//! session are not counted, because they come at fixed intervals, whatever is held: the library's pings, and a
//! renewal's two requests.

mod gate;
mod left;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_conformance::subjects::{Control, Site};
use tidelock_conformance::{Ability, Act, Belief, Can, Cost, Counts, Mishap, Seat};
use tidelock_core::backend::Backend;
use tidelock_core::{Error, ErrorKind, Result, SessionId};
use tidelock_zookeeper::Store;

use self::gate::Gates;

/// A session ends up to one tick after its timeout, and the server's clock ticks ten times a second. In an ensemble
/// everything takes longer, elections too.
const TTL: Duration = Duration::from_secs(3);

/// The site of one ZooKeeper.
#[derive(Debug)]
pub(crate) struct ZooKeeper {
    url: String,
    /// `HOST:PORT` of each server.
    hosts: Vec<String>,
    gates: Gates,
}

impl ZooKeeper {
    /// The ZooKeeper at that URL, where every client may do everything. The URL is one that [`Store::open`] accepts.
    ///
    /// # Errors
    /// If it is not a URL of a ZooKeeper, or there is no free port for a gate.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Store::open(url)?; // its error for a bad URL is the best one
        let plain =
            |url: &str| url.strip_prefix("zookeeper://").map(|rest| rest.trim_end_matches('/').to_owned());
        let rest = plain(url).filter(|rest| !rest.contains(['/', '@']));
        let rest = rest.ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, "the suite needs a URL zookeeper://HOST:PORT,…")
        })?;
        let hosts: Vec<String> = rest.split(',').map(str::to_owned).collect();
        let gates = Gates::open(&hosts)
            .map_err(|error| Error::new(ErrorKind::Unavailable, "no free port for a gate").because(error))?;
        Ok(Self { url: url.to_owned(), hosts, gates })
    }

    fn is_alone(&self) -> bool {
        self.hosts.len() == 1
    }
}

#[async_trait]
impl Site for ZooKeeper {
    fn name(&self) -> &'static str {
        if self.is_alone() { "zookeeper" } else { "zookeeper ensemble" }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn default_port(&self) -> u16 {
        2_181
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "The server's minimum session timeout is two ticks, which is the default.".into(),
            "The caller checks its guard before each write: a write that is already on its way when the guard is \
             lost may still arrive."
                .into(),
            "Only Tidelock creates or deletes nodes in the namespace.".into(),
            "A majority of the servers keeps what it has written: disks do not lose confirmed writes.".into(),
        ]
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::EndSession => no("an operator has no command that ends another client's session"),
            Ability::FailOver => no("a new leader has every transaction that was answered"),
            Ability::Spread => no("every server has all names"),
            Ability::Agree if self.is_alone() => no("there is only one server"),
            Ability::StepClock => no("sessions use a clock of the server that never steps"),
            Ability::CutPush => no("a client has one connection for everything"),
            Ability::WrongPassword => {
                no("a user is the hash of a password, so another password is another user")
            }
            Ability::NoPermission => {
                no("there are no users with permissions, only nodes with lists of users")
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
            Mishap::FailOver => {
                Belief::CannotHappen("a new leader has every transaction that was answered".into())
            }
            Mishap::ClockStep => {
                Belief::CannotHappen("sessions use a clock of the server that never steps".into())
            }
            _ => Belief::NeverOverlaps, // a restart keeps sessions and nodes
        }
    }

    fn ttl(&self) -> Duration {
        if self.is_alone() { TTL } else { TTL + Duration::from_secs(1) }
    }

    /// A new name costs one more request to take. A hand-off reads the line and sets a watch for the next claim.
    fn cost(&self) -> Cost {
        Cost { acquire: 3, release: 1, hand_off: 2, renewal: 0 }
    }

    fn member(&self) -> &'static str {
        "server"
    }

    /// An ensemble continues without one of its servers, so the leader is the one to kill or restart.
    async fn members(&self, act: &Act, control: &Control) -> Result<Vec<String>> {
        let mut members = control.members().await?;
        members.retain(|(role, _)| !role.contains('~')); // links between two servers
        if matches!(act, Act::Restart | Act::Crash) && !self.is_alone() {
            let leader = left::seated(&self.hosts, Seat::Leader).await?;
            members.retain(|(_, port)| leader.ends_with(&format!(":{port}")));
        }
        Ok(members.into_iter().map(|(role, _)| role).collect())
    }

    async fn seated(&self, seat: Seat) -> Result<String> {
        left::seated(&self.hosts, seat).await.map(str::to_owned)
    }

    async fn settle(&self) -> Result<()> {
        left::settle(&self.hosts).await
    }

    fn push_mark(&self) -> Option<&'static str> {
        None
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>> {
        let gated = self.gates.url();
        Ok(Arc::new(Store::open(if url == self.url { &gated } else { url })?))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.gates.counts())
    }

    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        left::over(&self.hosts, namespace, !open.is_empty()).await
    }

    async fn forget(&self) -> Result<()> {
        left::forget(&self.hosts).await
    }

    async fn add_user(&self, _: &str, _: &str, _: bool) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "there are no users"))
    }

    async fn remove_user(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
