//! Why a claim is no longer held or waiting.

use crate::{Error, ErrorKind};

/// Why a claim is no longer held or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its user gave it back.
    Left,
    /// The store does not know it any more.
    NotInLine,
    /// It does not hold in the store, or not by the grant that its user was told of.
    NotHeld,
    /// No renewal reached the store in time.
    Deadline,
    /// It was held for longer than `max_hold`.
    MaxHold,
    /// The session ended, and all of its claims with it.
    SessionOver,
    /// Its `Locks` was closed.
    Closed,
}

impl Loss {
    /// The reason, as the end of a sentence about the lock.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Left => "it was given back",
            Self::NotInLine => {
                "the store no longer has it: it was evicted, its lease ended there, or the server lost its data"
            }
            Self::NotHeld => "the store that answers now does not have its grant, as after a failover",
            Self::Deadline => "no renewal reached the store before its lease could end there",
            Self::MaxHold => "it was held for longer than max_hold allows",
            Self::SessionOver => "its session was not renewed in time, or the store ended it",
            Self::Closed => "its Locks was closed",
        }
    }
    /// The error of a guard that was lost, which says what to do: `lost` is the beginning of the sentence.
    pub(crate) fn error(self, lost: &str) -> Error {
        let next = match self {
            Self::Left | Self::Closed => "",
            _ => "; lock it again and start over",
        };
        Error::new(ErrorKind::Lost, format!("{lost}: {}{next}", self.reason()))
    }
}
