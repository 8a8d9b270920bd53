//! A line as operators see it: who holds, who waits, since when.

use std::fmt;
use std::time::Duration;

use crate::{ClaimId, Kind, Token, Weight};

/// One name's line at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The kind of lock it is; `None` when nobody stands in it.
    pub kind: Option<Kind>,
    /// Its capacity; `None` when nobody stands in it.
    pub capacity: Option<Weight>,
    /// Who stands in it, in order: those who hold first.
    pub claims: Vec<Stander>,
}

/// One claim in a [`Line`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stander {
    /// Whose claim it is; what [`Locks::evict`](crate::Locks::evict) takes.
    pub id: ClaimId,
    /// How much of the capacity it takes.
    pub weight: Weight,
    /// Its token when it is held; `None` while it waits.
    pub token: Option<Token>,
    /// What its client calls itself.
    pub label: String,
    /// For how long it has been standing there, by the store's clock; `None` where the store cannot tell.
    pub since: Option<Duration>,
}

impl Line {
    /// The line of a name, as a backend lists it.
    #[must_use]
    pub fn new(kind: Kind, capacity: Weight, claims: Vec<Stander>) -> Self {
        Self { kind: Some(kind), capacity: Some(capacity), claims }
    }

    /// Those who hold.
    pub fn holders(&self) -> impl Iterator<Item = &Stander> {
        self.claims.iter().filter(|stander| stander.is_held())
    }

    /// Those who wait, the next one first.
    pub fn waiters(&self) -> impl Iterator<Item = &Stander> {
        self.claims.iter().filter(|stander| !stander.is_held())
    }
}

impl Stander {
    /// A claim as a backend lists it.
    #[must_use]
    pub fn new(
        id: ClaimId,
        weight: Weight,
        token: Option<Token>,
        label: String,
        since: Option<Duration>,
    ) -> Self {
        Self { id, weight, token, label, since }
    }

    /// Whether it has its turn.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.token.is_some()
    }
}

impl fmt::Debug for Stander {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, weight, token, label, since } = self;
        match token {
            Some(token) => write!(f, "{id} of {label:?} holds {weight} under token {token}")?,
            None => write!(f, "{id} of {label:?} waits for {weight}")?,
        }
        match since {
            Some(since) => write!(f, ", in line for {since:?}"),
            None => Ok(()),
        }
    }
}
