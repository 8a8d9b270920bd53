//! Leaving a line: with a claim of our own, or, as an operator, with another client's claim.
//!
//! One transaction deletes the claim's keys, whatever they are called behind its slot, unless another claim has the slot by
//! now: a leave may be carried out long after it was given up. If a join of it may still arrive, it also leaves a key that
//! such a join meets. A renewal deletes that key when no join can come any more.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp};
use tidelock_core::backend::{Leave, Left, Reply};
use tidelock_core::{ClaimId, ErrorKind, Kind, Name};
use tidelock_model::{Place, place};

use crate::open_session::{OpenSession, lease_id};
use crate::own_claims::{LeaveStart, Stage};
use crate::request::{Action, Answer};

impl OpenSession {
    /// The leave is under way when this returns. May be called from any thread.
    pub(crate) fn leave(self: Arc<Self>, name: Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if id.session == self.id { self.leave_own(name, id, how) } else { self.evict(name, id, how) }
    }

    fn leave_own(self: Arc<Self>, name: Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let now = self.clock.now();
        if how == Leave::Void {
            self.own_claims.make_void(id, now, self.lease.ttl * 2);
        }
        // From here on its joins were sent, or never will be.
        self.lanes.retract(id);
        let start = self.own_claims.leaves(&name, id);
        if start.is_nowhere {
            let news = self.own_claims.left(&name, id, None);
            self.tell(&name, news);
            return Box::pin(std::future::ready(Ok(Left::Absent)));
        }
        let when = vec![self.stands_there(&name, id)];
        let (mut changes, mut otherwise) = (self.deletes(&name, id), Vec::new());
        if start.may_come {
            changes.push(self.voids(id, ""));
            otherwise.push(self.voids(id, ""));
            self.own_claims.void_is_kept(id.number, now);
        }
        if start.is_last && start.kind == Some(Kind::Semaphore) {
            changes.push(self.forgets_the_size(&name, id));
        }
        let is_read = !matches!(start.stage, Some(Stage::Stands(_)));
        let leaving = self.gather(id, &name, Action::Leave { when, changes, otherwise, is_read });
        Box::pin(async move {
            match leaving.await {
                // Its user asks how it left, and the attempt before may have taken it out. Of a claim that is not known to
                // have stood nobody asks that.
                Ok(Answer { deleted: 0, doubt: Some(before), .. })
                    if matches!(start.stage, Some(Stage::Stands(_))) =>
                {
                    Err(self.noted(before.error))
                }
                Ok(answer) => Ok(self.how_it_left(&name, id, Some(start), &answer)),
                Err(failed) => Err(self.noted(failed.error)),
            }
        })
    }

    /// Another client's claim. It is made void only if it stood there: its client may still use it otherwise.
    fn evict(self: Arc<Self>, name: Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let when: Vec<Compare> = vec![self.stands_there(&name, id)];
        let mut changes = self.deletes(&name, id);
        if how == Leave::Void {
            changes.push(self.voids(id, &name));
        }
        let leave = Action::Leave { when, changes, otherwise: Vec::new(), is_read: true };
        let evicting = self.gather(id, &name, leave);
        Box::pin(async move {
            match evicting.await {
                Ok(Answer { is_done: false, doubt, .. }) => {
                    doubt.map_or(Ok(Left::Absent), |before| Err(before.error))
                }
                Ok(answer) => Ok(self.how_it_left(&name, id, None, &answer)),
                // The lease of that client is gone, and all its claims with it.
                Err(failed) if failed.is_refused && failed.error.kind() == ErrorKind::Lost => {
                    Ok(Left::Absent)
                }
                Err(failed) => Err(failed.error),
            }
        })
    }

    fn how_it_left(&self, name: &Name, id: ClaimId, start: Option<LeaveStart>, answer: &Answer) -> Left {
        let is_held = match start.and_then(|start| start.stage) {
            Some(Stage::Stands(stands)) => stands.is_held,
            _ => self
                .view(name, answer)
                .is_ok_and(|view| place(&self.own_claims.shown(&view), id) == Place::Held),
        };
        match (answer.deleted, is_held) {
            (0, _) => Left::Absent,
            (_, true) => Left::Held,
            (_, false) => Left::Waiting,
        }
    }

    /// All keys of the claim.
    fn deletes(&self, name: &Name, id: ClaimId) -> Vec<TxnOp> {
        vec![TxnOp::delete(self.keys.claim(name, id), Some(DeleteOptions::new().with_prefix()))]
    }

    /// Deletes the copy of a resize that is there for this client's claims, unless another of them stands in line: a leave
    /// may be carried out long after it was given up.
    fn forgets_the_size(&self, name: &Name, id: ClaimId) -> TxnOp {
        let (all, own) = (self.keys.claims(name, id.session), self.keys.claim(name, id));
        let nobody =
            |from: String, to: String| Compare::create_revision(from, CompareOp::Equal, 0).with_range(to);
        let when = [nobody(all.clone(), own.clone()), nobody(behind(&own), behind(&all))];
        let forget = TxnOp::delete(self.keys.resized(name, id.session), None);
        TxnOp::txn(Txn::new().when(when).and_then([forget]))
    }

    /// A key that a late join of the claim meets. Of another client's claim it says the name of the line: that client
    /// watches for it. It is put in a transaction of its own, because of those inside another
    /// the server does not count how much they write: so a claim can leave a database that is full.
    fn voids(&self, id: ClaimId, evicted_from: &str) -> TxnOp {
        let lease = PutOptions::new().with_lease(lease_id(id.session));
        TxnOp::txn(Txn::new().and_then([TxnOp::put(self.keys.void(id), evicted_from, Some(lease))]))
    }
}

/// The first key behind all that begin like this, which ends with `-`.
fn behind(prefix: &str) -> String {
    format!("{}.", prefix.trim_end_matches('-'))
}
