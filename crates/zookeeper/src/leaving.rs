//! Leaving a line: with a claim of our own, or, as an operator, with another client's claim.
//!
//! If the claim's nodes are known, a leave is one transaction. If they are not, or if the claim is another client's, a
//! search finds them first, behind every earlier request for the claim.

use std::sync::Arc;

use tidelock_core::backend::{Left, Reply, unharmed};
use tidelock_core::{ClaimId, Name, Result};
use zookeeper_client::Error as Said;

use crate::link::Change;
use crate::open_session::OpenSession;
use crate::own_claims::{Next, Stage, Stands};
use crate::request::Action;
use crate::searches::Found;

impl OpenSession {
    /// The leave is under way when this returns. May be called from any thread.
    pub(crate) fn leave(self: Arc<Self>, name: Name, id: ClaimId) -> Reply<Left> {
        let stage = if id.session == self.id { self.own_claims.leaves(&name, id) } else { None };
        match stage {
            Some(Stage::Stands(stands)) => self.leave_known(name, id, &stands),
            Some(Stage::Nowhere) => {
                self.has_left(&name, id);
                Box::pin(std::future::ready(Ok(Left::Absent)))
            }
            Some(Stage::Asked) | None => self.leave_if_found(name, id),
        }
    }

    pub(crate) fn leave_in_the_background(self: Arc<Self>, name: Name, id: ClaimId) {
        let leaving = self.clone().leave(name.clone(), id);
        self.runtime.spawn(async move {
            if let Err(error) = leaving.await {
                unharmed(|| tracing::debug!(lock.name = %name, %error, "a leave got no reply; a renewal that finds the claim repeats it"));
            }
        });
    }

    /// In a mutex's line, the claim directly behind gets the next turn. If it is ours, the same transaction checks that
    /// it still stands there, which saves a look.
    fn leave_known(self: Arc<Self>, name: Name, id: ClaimId, stands: &Stands) -> Reply<Left> {
        let line = self.nodes.line(&name);
        let how = if stands.is_held { Left::Held } else { Left::Waiting };
        let next = if stands.is_held { self.own_claims.next(&name, id) } else { None };
        // The rest of a writer first: a claim that waits for a writer watches that node.
        let mut changes: Vec<_> =
            stands.nodes.iter().rev().map(|node| Change::Delete(format!("{line}/{node}"))).collect();
        changes.extend(next.iter().map(|next| Change::Check(format!("{line}/{}", next.node))));
        let is_one = changes.len() == 1;
        let deleting = self.gather(id, &name, Action::Leave(changes));
        Box::pin(async move {
            match (deleting.await.made.map_err(Said::from), next) {
                (Ok(_), None) => self.has_left(&name, id),
                (Ok(_), Some(next)) => self.hand_on(&name, id, &next),
                // It was evicted, or has left before.
                (Err(Said::NoNode), _) if is_one => {
                    self.has_left(&name, id);
                    return Ok(Left::Absent);
                }
                // Some of its nodes may remain, or the next claim has left.
                (Err(Said::NoNode), _) => return self.leave_if_found(name, id).await,
                (Err(error), _) => return Err(self.trouble(&error)),
            }
            Ok(how)
        })
    }

    fn hand_on(self: &Arc<Self>, name: &Name, left: ClaimId, next: &Next) {
        let (turn, behind) = self.own_claims.hand_on(name, left, next, self.watching(name, 0));
        if let Some(turn) = turn {
            self.takes_turn(name, next.number, &turn);
        }
        self.go_on(name, &behind);
    }

    /// Runs in a task of its own: the caller may be gone when the claim is found.
    fn leave_if_found(self: Arc<Self>, name: Name, id: ClaimId) -> Reply<Left> {
        let searching = self.search(&name, id);
        let session = self.clone();
        let leaving = self.runtime.spawn(async move {
            let left = session.delete_if_found(&name, id, searching.await).await?;
            if id.session == session.id {
                session.has_left(&name, id);
            }
            Ok(left)
        });
        Box::pin(async move { leaving.await.unwrap_or_else(|_| Err(self.trouble(&Said::ClientClosed))) })
    }

    async fn delete_if_found(
        self: &Arc<Self>,
        name: &Name,
        id: ClaimId,
        mut found: Result<Arc<Found>, Said>,
    ) -> Result<Left> {
        let line = self.nodes.line(name);
        loop {
            let line_now = found.map_err(|error| self.trouble(&error))?;
            let Some(standing) = line_now.find(id) else { return Ok(Left::Absent) };
            let how = if line_now.is_held(id) { Left::Held } else { Left::Waiting };
            // All nodes or none: half a writer would let readers in, and its holder would not learn of it.
            let deleting = standing.nodes().rev().map(|node| Change::Delete(format!("{line}/{node}")));
            let deleting = self.gather(id, name, Action::Leave(deleting.collect()));
            match deleting.await.made.map_err(Said::from) {
                Ok(_) => return Ok(how),
                // It has become lighter meanwhile, or has left.
                Err(Said::NoNode) => found = self.search(name, id).await,
                Err(error) => return Err(self.trouble(&error)),
            }
        }
    }

    pub(crate) fn has_left(self: &Arc<Self>, name: &Name, id: ClaimId) {
        let behind = self.own_claims.left(name, id, self.watching(name, 0));
        self.go_on(name, &behind);
    }
}
