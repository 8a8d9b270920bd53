//! What an operation brought about. The first event answers the operation; the others are what followed from it.

use crate::{ClaimId, Left, Refusal, SessionId, Token, Weight};

/// One thing that an [`Op`](crate::Op) brought about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event<N> {
    /// The session lives until then, unless it is renewed: the answer to opening and to renewing.
    Lives {
        /// Which session.
        session: SessionId,
        /// When it will end.
        until: u64,
    },
    /// The session is not open: it was closed, or its time ran out, or it never was.
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
    /// The claim waits its turn.
    Waiting {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
    },
    /// There is no such claim to look at or to lighten.
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
    /// The claim left the line, or was not there: the answer to a leave, or what a session's end brings about.
    Left {
        /// Which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// How it stood until now.
        left: Left,
    },
    /// The claim was made lighter.
    Lightened {
        /// In which line.
        name: N,
        /// Which claim.
        id: ClaimId,
        /// What it weighs now.
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
