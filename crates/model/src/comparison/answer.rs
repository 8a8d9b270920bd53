//! What a store answered, told and showed.

use alloc::vec::Vec;

use crate::{ClaimId, Kind, Left, SessionId, Weight};

/// All that is to be seen of a store after it was asked something. Tokens are the store's own, times are in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it answered.
    pub reply: Reply,
    /// What it told which client, in the reply or besides.
    pub told: Vec<(SessionId, Told)>,
    /// The line as it is now, the dead included that nobody has met yet.
    pub shown: Shown,
}

/// What a store answered.
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
    /// To a join or a lightening: this is all that there is, or what the claim weighs.
    Heavy(Weight),
    /// To a resize: the capacity is this.
    Capacity(Weight),
    /// To a resize: somebody waits who could then never be held.
    Strands,
    /// To a leave.
    Left(Left),
    /// To a lightening or a resize.
    Done,
    /// To a lightening: no such claim holds.
    Absent,
    /// To a renewal.
    Renewed {
        /// How many claims the client holds there.
        claims: u64,
        /// The sum of their numbers.
        sum: u64,
        /// Whether it may wait there too.
        waits: bool,
    },
    /// To a look.
    Seen {
        /// When to look again.
        look_in: u64,
        /// Whether anybody stands there.
        is_in_use: bool,
        /// Those that were asked about and hold, with their tokens.
        held: Vec<(u64, u64)>,
        /// Those that were asked about and do not stand there.
        gone: Vec<u64>,
        /// The client's other claims that hold.
        strays: Vec<u64>,
    },
    /// It has lost what it was to lose.
    Lost,
}

/// What a client was told.
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
    /// What it is used as, and its capacity; `None` when nobody stands in it.
    pub line: Option<(Kind, Weight)>,
    /// Who stands there, first come first.
    pub claims: Vec<Stands>,
    /// Until when the store keeps each of the things by which it knows these claims; `None` is for ever.
    pub kept: Vec<Option<u64>>,
}

/// One who stands in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Who.
    pub id: ClaimId,
    /// How much it takes; `None` where the store has lost that.
    pub weight: Option<Weight>,
    /// Its token, if it holds.
    pub token: Option<u64>,
}
