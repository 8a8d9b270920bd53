//! One client's session: a ZooKeeper session, and every claim a child of its line that is deleted when the session
//! ends.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Clock, Lane, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight, Signals, Sleep,
    unharmed,
};
use tidelock_core::{ClaimId, Error, Line, Name, Result, SessionId, Token, Weight};
use tokio::runtime::Handle;
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::books::{Books, Task};
use crate::gathering::Part;
use crate::inspection::ServerTime;
use crate::lease::Lease;
use crate::link::{Change, Link};
use crate::nodes::{Node, Nodes};
use crate::reconnecting::Ticket;
use crate::searching::Searches;
use crate::trouble;

/// The state that all parts of one session share.
pub(crate) struct Desk {
    pub(crate) id: SessionId,
    pub(crate) label: Arc<str>,
    pub(crate) nodes: Nodes,
    pub(crate) link: Link,
    pub(crate) lease: Lease,
    pub(crate) books: Books,
    pub(crate) lane: Lane<Part>,
    pub(crate) searches: Searches,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) server_time: ServerTime,
    /// The keeper's runtime: the tasks that watch run there.
    pub(crate) runtime: Handle,
}

impl Desk {
    pub(crate) fn trouble(&self, error: &Said) -> Error {
        trouble::from(error, &self.link.place)
    }

    /// A renewal is one transaction that changes nothing. A sync would not do: a leader that the others have already
    /// left still answers it.
    async fn renew(self: &Arc<Self>, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let sent = self.clock.now();
        let root = self.nodes.root();
        let confirming = self.link.transact(vec![Change::Check(root.to_owned())]);
        let listing = self.link.own(root);
        match confirming.await {
            // A deleted namespace is a reply too.
            Ok(_) | Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {}
            Err(error) => return Err(self.trouble(&error.into())),
        }
        self.lease.answered(sent, self.clock.now());
        let own = listing.await.map_err(|error| self.trouble(&error))?;
        let own: BTreeSet<(Name, ClaimId)> = own.iter().filter_map(|path| self.claim_of(path)).collect();
        let asked = standing.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name.clone(), *id)));
        let asked: BTreeSet<(Name, ClaimId)> = asked.collect();
        let until = self.lease.until();
        // After a time without replies the leader may still be unaware of this request: core soon renews again.
        let is_sure = until > sent + self.lease.ttl / 2;
        let unsure = if is_sure { Vec::new() } else { own.intersection(&asked).map(|(_, id)| *id).collect() };
        let gone: Vec<_> = asked.difference(&own).collect();
        gone.iter().for_each(|(name, id)| self.has_left(name, *id));
        Ok(Renewal {
            until,
            gone: gone.into_iter().map(|(_, id)| *id).collect(),
            unsure,
            strays: own.difference(&asked).cloned().collect(),
        })
    }

    /// Ends the session at the server, and all its nodes with it.
    fn end(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        self.books.close();
        self.link.close();
        let desk = self.clone();
        async move { desk.link.over().await }
    }

    fn claim_of(&self, path: &str) -> Option<(Name, ClaimId)> {
        let (name, node) = self.nodes.take_apart(path)?;
        Node::parse(node).map(|node| (name, node.id)).filter(|(_, id)| id.session == self.id)
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} at {}", self.id, self.link.place)
    }
}

/// A session, and the tasks that reconnect it, renew it, and end it in time.
#[derive(Debug)]
pub(crate) struct ZooKeeperSession {
    desk: Arc<Desk>,
    _staying: Task,
    _minding: Task,
    _beating: Task,
}

impl ZooKeeperSession {
    pub(crate) fn new(desk: Desk, ticket: Ticket) -> Self {
        let desk = Arc::new(desk);
        let staying = desk.runtime.spawn(desk.clone().stay(ticket)).abort_handle();
        let minding = desk.runtime.spawn(mind(desk.clone())).abort_handle();
        let beating = desk.runtime.spawn(beat(desk.clone())).abort_handle();
        Self { desk, _staying: Task(staying), _minding: Task(minding), _beating: Task(beating) }
    }
}

/// Sends the server a request so often that the next renewal proves something recent. The library would ping it as
/// often.
async fn beat(desk: Arc<Desk>) {
    let beating = async {
        loop {
            let sent = desk.clock.now();
            if desk.link.is_open() && desk.link.stat("/").await.is_ok() {
                desk.lease.heard(sent, desk.clock.now());
            }
            Sleep::until(&desk.clock, sent + desk.lease.ttl / 10).await;
        }
    };
    tokio::select! {
        () = desk.link.over() => {}
        () = beating => {}
    }
}

/// Ends a session that is no longer renewed, or whose renewals get no reply. The library would keep it alive, and its
/// claims with it. Core has given up all of them by then.
async fn mind(desk: Arc<Desk>) {
    loop {
        let until = desk.lease.until();
        if desk.clock.now() >= until {
            break;
        }
        tokio::select! {
            () = desk.link.over() => return, // it was closed or lost: nothing is left to end
            () = Sleep::until(&desk.clock, until) => {}
        }
    }
    unharmed(
        || tracing::warn!(session = %desk.id, "session expired: no renewal in time; its locks are lost"),
    );
    let ended = desk.end();
    let late = desk.clock.now() + desk.lease.ttl / 8;
    tokio::select! {
        () = ended => {}
        () = Sleep::until(&desk.clock, late) => {}
    }
    desk.link.cut();
    desk.signals.over();
}

#[async_trait]
impl Session for ZooKeeperSession {
    fn ttl(&self) -> Duration {
        self.desk.lease.ttl
    }

    /// A client has one connection, whatever the ensemble, and everything on it stalls together.
    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.desk.join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.desk.look_for(name, waiting).await
    }

    /// Nothing to do here. The server refuses a request that was given up with its connection, because the session has
    /// moved. And a line that has shrunk does not show which claims have lost their turn.
    async fn not_held(&self, _: &Name, _: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        Ok(Vec::new())
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if how == Leave::Void && id.session == self.desk.id {
            self.desk.books.make_void(id, self.desk.clock.now(), self.desk.lease.ttl * 2);
        }
        self.desk.clone().leave(name.clone(), id)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.desk.lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.desk.resize(name, from, to).await
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.desk.renew(standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.desk.inspect(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.desk.names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.desk.end().await;
        Ok(())
    }
}
