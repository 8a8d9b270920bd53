//! Renewals, and the end of a session that nobody renews.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidelock_core::backend::{Renewal, Sleep, unharmed};
use tidelock_core::{ClaimId, Name, Result};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::Change;
use crate::nodes::Node;
use crate::open_session::OpenSession;

impl OpenSession {
    /// A renewal is one transaction that changes nothing. A sync would not do: a leader that the others have already
    /// left still answers it.
    pub(crate) async fn renew(self: &Arc<Self>, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
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
            missed: Vec::new(),
            waiting: Vec::new(), // only this client says which of its claims hold
            strays: own.difference(&asked).cloned().collect(),
        })
    }

    /// Ends the session at the server, and all its nodes with it.
    pub(crate) fn end(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        self.own_claims.close();
        self.link.close();
        let session = self.clone();
        async move { session.link.over().await }
    }

    fn claim_of(&self, path: &str) -> Option<(Name, ClaimId)> {
        let (name, node) = self.nodes.take_apart(path)?;
        Node::parse(node).map(|node| (name, node.id)).filter(|(_, id)| id.session == self.id)
    }
}

/// Sends the server a request so often that the next renewal proves something recent. The library would ping it as
/// often.
pub(crate) async fn beat(session: Arc<OpenSession>) {
    let beating = async {
        loop {
            let sent = session.clock.now();
            if session.link.is_open() && session.link.stat("/").await.is_ok() {
                session.lease.heard(sent, session.clock.now());
            }
            Sleep::until(&session.clock, sent + session.lease.ttl / 10).await;
        }
    };
    tokio::select! {
        () = session.link.over() => {}
        () = beating => {}
    }
}

/// Ends a session that is no longer renewed, or whose renewals get no reply. The library would keep it alive, and its
/// claims with it. Core has given up all of them by then.
pub(crate) async fn mind(session: Arc<OpenSession>) {
    loop {
        let until = session.lease.until();
        if session.clock.now() >= until {
            break;
        }
        tokio::select! {
            () = session.link.over() => return, // it was closed or lost: nothing is left to end
            () = Sleep::until(&session.clock, until) => {}
        }
    }
    unharmed(
        || tracing::warn!(session = %session.id, "no renewal was confirmed in time; this client gives the session up, and its locks are lost"),
    );
    let ended = session.end();
    let late = session.clock.now() + session.lease.ttl / 8;
    tokio::select! {
        () = ended => {}
        () = Sleep::until(&session.clock, late) => {}
    }
    session.link.cut();
    session.signals.over();
}
