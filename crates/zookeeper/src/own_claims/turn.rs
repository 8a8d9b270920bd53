//! Turns in a line, and whether our next waiter still needs a watch.

use tidelock_core::Token;

/// One of our claims has its turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: Token,
    pub(crate) behind: Behind,
}

/// Whether a watch is set for our next waiter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// One is set, or none of ours waits.
    Watched,
    /// None is set: look at the line.
    Unknown,
}

/// Our claim that gets its turn when another of ours leaves, known without a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) number: u64,
    pub(crate) node: String,
}
