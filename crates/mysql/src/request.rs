//! A request about one line, as it is gathered with others, and its result.

use tidelock_core::backend::{Batchable, Claim, Leave, Left, Patience, Place};
use tidelock_core::{ClaimId, Error, Name, Result, SessionId, Weight};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) action: Action,
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Join {
        claim: Claim,
        patience: Patience,
        /// The claim gets a row of its own at once, for a transaction of the user.
        in_rows: bool,
    },
    Leave {
        id: ClaimId,
        how: Leave,
    },
    Lighten {
        id: ClaimId,
        weight: Weight,
    },
    Resize {
        from: Weight,
        to: Weight,
    },
    /// Takes out claims of these dead clients, and grants the next ones. With nobody in the list it only grants.
    Bury(Vec<(SessionId, Vec<u64>)>),
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Joined(Place),
    Left(Left),
    Done,
}

impl Request {
    /// Whether it was answered before it was sent, because its claim is void.
    pub(crate) fn is_void(&self, is_void: impl Fn(u64) -> bool) -> bool {
        matches!(&self.action, Action::Join { claim, .. } if is_void(claim.id.number))
    }

    pub(crate) fn reply(self, outcome: Result<Outcome>) {
        // A caller that is gone sends a leave.
        let _ = self.answer.send(outcome);
    }

    pub(crate) fn fail(self, error: &Error) {
        self.reply(Err(error.clone()));
    }
}

impl Batchable for Request {
    fn name(&self) -> &Name {
        &self.name
    }

    fn claim(&self) -> ClaimId {
        match &self.action {
            Action::Join { claim, .. } => claim.id,
            Action::Leave { id, .. } | Action::Lighten { id, .. } => *id,
            // About a line. Nothing asks for it: only joins are taken back.
            Action::Resize { .. } | Action::Bury(_) => {
                ClaimId { session: SessionId::from_bits(0), number: 0 }
            }
        }
    }

    fn is_join(&self) -> bool {
        matches!(self.action, Action::Join { .. })
    }

    /// A join whose caller is gone is not sent. All others are, even if nothing waits for their answer.
    fn is_wanted(&self) -> bool {
        !self.is_join() || !self.answer.is_closed()
    }
}
