//! Whose turn it is in a line, and what is to be done for whoever of ours waits behind.

use tidelock::Token;

/// One of ours has its turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: Token,
    pub(crate) behind: Behind,
}

/// Whether anything is watched for the next of ours that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// It is, or nobody waits.
    Watched,
    /// It is not, and somebody should look.
    Unknown,
}

/// Whose turn it is when a claim of our own has left, without a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) number: u64,
    pub(crate) node: String,
}
