//! Making a claim lighter, and a semaphore larger or smaller, while they are in use.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use tidelock_core::backend::Claim;
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, Result, SessionId, Weight};
use tidelock_model::ShownLine;

use crate::gathering::revision;
use crate::line_view::LineView;
use crate::link::MOST_OPERATIONS;
use crate::open_session::{OpenSession, lease_id};
use crate::own_claims::{Stage, Stands};
use crate::resized::Resized;

/// How many sessions may stand in a line that is resized.
const MOST: usize = MOST_OPERATIONS;
/// The pause before a resize is tried again, because the line has changed.
const PAUSE: Duration = Duration::from_millis(5);

impl OpenSession {
    /// A writer becomes a reader by deleting its second key.
    pub(crate) async fn lighten(self: &Arc<Self>, claim: &Claim, weight: Weight) -> Result<()> {
        let gone = || Err(Error::not_in_line(claim.id));
        let Some(Stage::Stands(Stands { order, is_held: true, .. })) = self.own_claims.stage(claim.id) else {
            return gone();
        };
        let keys = self.keys.of_claim(claim, claim.capacity);
        if let ([base, rest], Weight::ONE) = (keys.as_slice(), weight) {
            let order = i64::try_from(order).unwrap_or(i64::MAX);
            let stands = Compare::create_revision(base.clone(), CompareOp::Equal, order);
            let txn = Txn::new().when([stands]).and_then([TxnOp::delete(rest.clone(), None)]);
            let answer = self.link.transact(txn).await.map_err(|failed| self.noted(failed.error))?;
            if !answer.succeeded() {
                return gone();
            }
            let news = self.own_claims.lightened(&claim.name, claim.id, revision(&answer));
            self.tell(&claim.name, news);
            return Ok(());
        }
        let view = self.read_line(&claim.name).await?;
        match view.find(claim.id).map(|standing| standing.weight) {
            None => gone(),
            Some(now) if weight == now => Ok(()),
            Some(now) if weight > now => Err(Error::heavier(now)),
            Some(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "in etcd only a writer can be made lighter: it becomes a reader",
            )),
        }
    }

    /// Writes the new capacity for each session that has claims there, if nothing has come or changed since the line was
    /// read.
    pub(crate) async fn resize(self: &Arc<Self>, name: &Name, from: Weight, to: Weight) -> Result<()> {
        loop {
            let view = self.read_line(name).await?;
            let shown = self.own_claims.shown(&view);
            let Some(last) = shown.claims.last() else { return Ok(()) };
            may_resize(&shown, from, to)?;
            let sessions = view.sessions();
            if sessions.len() > MOST {
                let wrong = format!(
                    "{} clients stand in this line, and etcd can write for {MOST} at once; resize it when fewer do",
                    sessions.len()
                );
                return Err(Error::new(ErrorKind::Unsupported, wrong));
            }
            let resized = resized(&view, &shown, to);
            if self.write_down(name, &view, last.id, &sessions, resized).await? {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// False: the line has changed.
    async fn write_down(
        self: &Arc<Self>,
        name: &Name,
        view: &LineView,
        last: ClaimId,
        sessions: &[SessionId],
        resized: Resized,
    ) -> Result<bool> {
        let line = self.keys.line(name);
        let same = Compare::mod_revision(line, CompareOp::Less, view.revision + 1).with_prefix();
        let when = vec![same, self.stands_there(name, last)];
        let put = |session: &SessionId| {
            let lease = PutOptions::new().with_lease(lease_id(*session));
            TxnOp::put(self.keys.resized(name, *session), resized.text(), Some(lease))
        };
        let puts: Vec<TxnOp> = sessions.iter().map(put).collect();
        match self.link.transact(Txn::new().when(when).and_then(puts)).await {
            Ok(answer) => Ok(answer.succeeded()),
            // A session that stood there has ended; perhaps it is our own.
            Err(failed)
                if failed.is_refused && failed.error.kind() == ErrorKind::Lost && sessions != [self.id] =>
            {
                Ok(false)
            }
            Err(failed) => Err(self.noted(failed.error)),
        }
    }
}

fn may_resize(shown: &ShownLine, from: Weight, to: Weight) -> Result<()> {
    let Some((kind, size)) = shown.in_use() else { return Ok(()) };
    if kind != Kind::Semaphore {
        return Err(Error::other_kind(kind));
    }
    if size != from {
        return Err(Error::other_size(size));
    }
    match shown.stranded_by(to) {
        Some(_) => Err(Error::strands()),
        None => Ok(()),
    }
}

/// What to write: all claims that stand there have the new capacity, and those that are held stay held.
fn resized(view: &LineView, shown: &ShownLine, to: Weight) -> Resized {
    let held = shown.claims[..shown.held_in_front()].last().map_or(0, |last| last.order + 1);
    let let_in = view.resized().map_or(held, |before| before.let_in.max(held));
    Resized { capacity: to, before: view.revision.unsigned_abs() + 1, let_in }
}
