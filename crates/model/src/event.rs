//! The results of an operation. The first event answers the operation; the others are its consequences.

use crate::{ClaimId, Left, Refusal, SessionId, Token, Weight};

/// One result of an [`Op`](crate::Op).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event<N> {
    /// The session lives until then, unless it is renewed: the answer to an open or a renewal.
    Lives {
        /// Which session.
        session: SessionId,
        /// When it will end.
        until: u64,
    },
    /// The session is not open: it was closed, it expired, or it was never opened.
    Over {
        /// Which session.
        session: SessionId,
    },
    /// The claim is held: the answer to a join or a look, or a grant that the operation made possible.
    Held {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// The token of its grant.
        token: Token,
    },
    /// The claim waits for its turn.
    Waiting {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
    },
    /// There is no such claim: the answer to a look or a lighten.
    Absent {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
    },
    /// The operation was refused, and changed nothing.
    Refused {
        /// Which line it was meant for.
        name: N,
        /// Why.
        why: Refusal,
    },
    /// The claim left the line, or was not there: the answer to a leave, or a consequence of a session's end.
    Left {
        /// Which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// How it stood before.
        left: Left,
    },
    /// The claim was made lighter.
    Lightened {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// Its weight now.
        weight: Weight,
    },
    /// The line has this capacity now.
    Resized {
        /// Which line.
        name: N,
        /// Its capacity.
        capacity: Weight,
    },
}
