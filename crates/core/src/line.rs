//! A line as operators see it: holders and waiters, with their times in line.

use std::fmt;
use std::time::Duration;

use crate::{ClaimId, Kind, Token, Weight};

/// The line of one name at one moment.
///
/// With the feature `serde` it can be written and read, for an operator's page: an id is a text, a token and a weight
/// are numbers, and a time in line is a text like `"9s"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub struct Line {
    /// The kind of lock; `None` if no claim is in line.
    pub kind: Option<Kind>,
    /// Its capacity; `None` if no claim is in line.
    pub capacity: Option<Weight>,
    /// The claims in line, in order: holders first.
    pub claims: Vec<ClaimInfo>,
}

/// One claim in a [`Line`]. Its text is for operators:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_core::Result<()> {
/// # use tidelock_memory::{Options, Store};
/// # let locks = Store::new().connect(Options::new().label("checkout")).await?;
/// let guard = locks.mutex("stock:42")?.lock().await?;
/// let text = locks.inspect("stock:42").await?.claims[0].to_string();
/// // 15f8c3a09be2d471-1 of "checkout" holds 1 under token 32, in line for 0ns
/// assert!(text.contains("of \"checkout\" holds 1 under token"));
/// # guard.release().await?;
/// # locks.close().await }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub struct ClaimInfo {
    /// The claim's id, for [`Locks::evict`](crate::Locks::evict).
    pub id: ClaimId,
    /// The part of the capacity that it takes.
    pub weight: Weight,
    /// Its token if it is held; `None` while it waits.
    pub token: Option<Token>,
    /// The label of its client: see [`Options::label`](crate::Options::label).
    pub label: String,
    /// How long it has been in line, waiting included, by the store's clock; `None` if the store cannot tell.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration::optional"))]
    pub since: Option<Duration>,
    /// How many tasks wait behind it in the local line of their client: see [`Options::linger`](crate::Options::linger).
    /// Only that client knows; others see zero.
    #[cfg_attr(feature = "serde", serde(default))]
    pub behind: usize,
}

impl Line {
    /// The line of a name, as a backend lists it.
    #[must_use]
    pub fn new(kind: Kind, capacity: Weight, claims: Vec<ClaimInfo>) -> Self {
        Self { kind: Some(kind), capacity: Some(capacity), claims }
    }

    /// The holders.
    pub fn holders(&self) -> impl Iterator<Item = &ClaimInfo> {
        self.claims.iter().filter(|claim| claim.is_held())
    }

    /// The waiters, the next one first.
    pub fn waiters(&self) -> impl Iterator<Item = &ClaimInfo> {
        self.claims.iter().filter(|claim| !claim.is_held())
    }
}

impl ClaimInfo {
    /// A claim as a backend lists it.
    #[must_use]
    pub fn new(
        id: ClaimId,
        weight: Weight,
        token: Option<Token>,
        label: String,
        since: Option<Duration>,
    ) -> Self {
        Self { id, weight, token, label, since, behind: 0 }
    }

    /// Whether it holds.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.token.is_some()
    }
}

impl fmt::Debug for ClaimInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ClaimInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, weight, token, label, since, behind } = self;
        match token {
            Some(token) => write!(f, "{id} of {label:?} holds {weight} under token {token}")?,
            None => write!(f, "{id} of {label:?} waits for {weight}")?,
        }
        if let Some(since) = since {
            write!(f, ", in line for {since:?}")?;
        }
        match behind {
            0 => Ok(()),
            behind => write!(f, ", {behind} of its client behind it"),
        }
    }
}
