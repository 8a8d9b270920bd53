//! A store's answer: its reply, its signals and the line that it shows.

use alloc::vec::Vec;

use crate::{ClaimId, Kind, Left, SessionId, Weight};

/// Everything visible of a store after a request. Tokens are the store's own, times are in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its reply.
    pub reply: Reply,
    /// What it told each client, in the reply or besides.
    pub told: Vec<(SessionId, Told)>,
    /// The line as it is now, including dead claims that no request has found yet.
    pub shown: Shown,
}

/// A store's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// To a join: it is held.
    Held {
        /// Its token.
        token: u64,
        /// The line's capacity.
        capacity: Weight,
    },
    /// To a join: it waits.
    Waiting {
        /// When a look is due.
        look_in: u64,
    },
    /// To a join without patience.
    Refused,
    /// To a join whose void leave came first.
    Void,
    /// The name is in use as this kind.
    Kind(Kind),
    /// To a join or a lighten that is too heavy: the capacity, or the weight of the claim.
    Heavy(Weight),
    /// To a resize that expects another capacity: the line's.
    Capacity(Weight),
    /// To a resize: a waiting claim could then never be held.
    Strands,
    /// To a leave.
    Left(Left),
    /// To a lighten or a resize.
    Done,
    /// To a lighten: no such claim holds.
    Absent,
    /// To a renewal.
    Renewed {
        /// How many claims the client holds there.
        claims: u64,
        /// The sum of their numbers.
        sum: u64,
        /// Whether the client may also wait there.
        waits: bool,
    },
    /// To a look.
    Seen {
        /// When to look again.
        look_in: u64,
        /// Whether any claim stands there.
        is_in_use: bool,
        /// The requested claims that hold, with their tokens.
        held: Vec<(u64, u64)>,
        /// The requested claims that do not stand there.
        gone: Vec<u64>,
        /// The client's other claims that hold.
        strays: Vec<u64>,
    },
    /// The store has lost what it was told to lose.
    Lost,
}

/// One thing that a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Told {
    /// This claim of its own was granted.
    Held {
        /// Its number.
        number: u64,
        /// Its token.
        token: u64,
        /// The line's capacity.
        capacity: Weight,
    },
    /// This claim of its own was taken out by another client.
    Gone {
        /// Its number.
        number: u64,
    },
    /// More can be granted here: look.
    Look,
}

/// A line as the store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its kind and its capacity; `None` when it is empty.
    pub line: Option<(Kind, Weight)>,
    /// Its claims, in order of arrival.
    pub claims: Vec<Stands>,
    /// Until when the store keeps each record about these claims; `None` means for ever.
    pub kept: Vec<Option<u64>>,
}

/// One claim in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Its id.
    pub id: ClaimId,
    /// Its weight; `None` if the store has lost it.
    pub weight: Option<Weight>,
    /// Its token, if it holds.
    pub token: Option<u64>,
}
