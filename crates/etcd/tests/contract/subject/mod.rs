//! An etcd under trial: one member, or a cluster of three.
//!
//! Requests and events are those that the members count themselves.

mod members;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_conformance::subjects::{Control, Site};
use tidelock_conformance::{Ability, Act, Belief, Can, Cost, Counts, Mishap, Seat};
use tidelock_core::backend::Backend;
use tidelock_core::{Error, ErrorKind, Result, SessionId};
use tidelock_etcd::Store;

use self::members::Members;

/// A server ends leases up to half a second late, and that is a tenth of this. A cluster elects a leader within a second
/// or two.
const TTL: Duration = Duration::from_secs(5);

/// The site of one etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    url: String,
    /// Its members, as their operator sees them.
    members: Members,
    /// What all keys begin with.
    prefix: String,
}

impl Etcd {
    /// The etcd at that URL, which is one that [`Store::open`] accepts. If it names a user, the user `root` must have the
    /// same password.
    ///
    /// # Errors
    /// If it is not a URL of an etcd.
    pub(crate) fn at(url: &str) -> Result<Self> {
        Store::open(url)?; // its error for a bad URL is the best one
        let rest = url.strip_prefix("etcd://").ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, "the suite needs a URL etcd://[USER:PASSWORD@]HOST:PORT,…")
        })?;
        let (who, rest) = rest.rsplit_once('@').map_or((None, rest), |(who, rest)| (Some(who), rest));
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let members = Members {
            hosts: hosts.split(',').map(str::to_owned).collect(),
            password: who.and_then(|who| who.split_once(':')).map(|(_, password)| password.to_owned()),
        };
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { url: url.to_owned(), members, prefix })
    }

    fn is_alone(&self) -> bool {
        self.members.hosts.len() == 1
    }
}

#[async_trait]
impl Site for Etcd {
    fn name(&self) -> &'static str {
        if self.is_alone() { "etcd" } else { "etcd cluster" }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn default_port(&self) -> u16 {
        2_379
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "The caller checks its guard before each write: a write that is already on its way when the guard is \
             lost may still arrive."
                .into(),
            "Only Tidelock creates or deletes keys in the namespace, and nobody else revokes its leases.".into(),
            "A leader that the others have left revokes no lease: it cannot commit that. (A server that resumes after a \
             pause of more than an election may, on versions before 3.5.8 and 3.4.25, pass on a revocation that is out \
             of date.)"
                .into(),
            "A majority of the members keeps what it has written: disks do not lose confirmed writes.".into(),
            "Clients reach the members themselves, or by a balancer that passes bytes or HTTP/2 requests on: not by \
             `etcd grpc-proxy`, which numbers watches itself. A client that connects through one is refused."
                .into(),
            "With a full database every member still carries out what only reads or deletes. (Versions before 3.5.7 and \
             3.4.20 refuse it: locks stay held by their clients there, and are not given back.)"
                .into(),
        ]
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::FailOver => no("a new leader has every transaction that was answered"),
            Ability::Spread => no("every member has all names"),
            Ability::Agree if self.is_alone() => no("there is only one member"),
            Ability::StepClock => no("leases use a clock of the server that never steps"),
            Ability::CutPush => no("a client has one connection for everything"),
            Ability::WrongPassword | Ability::NoPermission if self.members.password.is_none() => {
                no("it has no users; a cluster with users is another deployment")
            }
            _ => Can::Yes,
        }
    }

    fn belief(&self, mishap: Mishap) -> Belief {
        let may = |why: &str| Belief::MayOverlap(why.to_owned());
        match mishap {
            Mishap::Eviction => may("an evicted holder learns of it by its watch, or at its next renewal"),
            Mishap::StoppedClient => {
                may("a client stopped between checking its guard and writing does not check again")
            }
            Mishap::Forgetting => may("holders learn of it at their next renewal"),
            Mishap::FailOver => {
                Belief::CannotHappen("a new leader has every transaction that was answered".into())
            }
            Mishap::ClockStep => {
                Belief::CannotHappen("leases use a clock of the server that never steps".into())
            }
            _ => Belief::NeverOverlaps, // a restart keeps leases and keys
        }
    }

    fn ttl(&self) -> Duration {
        if self.is_alone() { TTL } else { TTL + Duration::from_secs(1) }
    }

    /// A hand-off looks whether claims ahead are gone, and again for the next claim once it is watched.
    fn cost(&self) -> Cost {
        Cost { acquire: 1, release: 1, hand_off: 2, renewal: 0 }
    }

    fn member(&self) -> &'static str {
        "member-1"
    }

    /// A cluster continues without one of its members, so the leader is the one to kill or restart.
    async fn members(&self, act: &Act, control: &Control) -> Result<Vec<String>> {
        let mut members = control.members().await?;
        members.retain(|(role, _)| !role.contains('~')); // links between two members
        if matches!(act, Act::Restart | Act::Crash) && !self.is_alone() {
            let leader = self.members.seated(Seat::Leader).await?;
            members.retain(|(_, port)| leader.ends_with(&format!(":{port}")));
        }
        Ok(members.into_iter().map(|(role, _)| role).collect())
    }

    async fn seated(&self, seat: Seat) -> Result<String> {
        self.members.seated(seat).await.map(str::to_owned)
    }

    async fn settle(&self) -> Result<()> {
        self.members.settle().await
    }

    fn push_mark(&self) -> Option<&'static str> {
        None
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Store::open(url)?))
    }

    async fn counts(&self) -> Result<Counts> {
        self.members.counts().await
    }

    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        let open: Vec<String> = open.iter().map(ToString::to_string).collect();
        self.members.left(&format!("{}{namespace}", self.prefix), &open).await
    }

    async fn forget(&self) -> Result<()> {
        self.members.forget(&self.prefix).await
    }

    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()> {
        self.members.add_user(user, password, may_everything.then_some(&*self.prefix)).await
    }

    async fn remove_user(&self, user: &str) -> Result<()> {
        self.members.remove_user(user).await
    }
}
