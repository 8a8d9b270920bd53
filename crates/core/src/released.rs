//! How far a release has come.

use crate::{Error, ErrorKind, Result};

/// The outcome of a release: of [`Guard::release`](crate::Guard::release) and its like.
///
/// The work that the lock protected is done, and as far as this client can know, the lock was held until the release
/// began. The outcomes differ in whether the store has said so, and whether the next holder can already have the lock.
/// Only an operator's eviction, or a failover, of which the client has not heard yet can be hidden by the second outcome;
/// a [fence](crate::Fence) sees these. So most programs write `guard.release().await?` and ignore the outcome.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::Released;
/// # let locks = tidelock::connect("memory://").await?;
/// let guard = locks.mutex("report")?.lock().await?;
/// // … the work, and its commit …
/// if let Released::OnItsWay(why) = guard.release().await? {
///     eprintln!("the next report may begin late: {why}");
/// }
/// locks.close().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Released {
    /// The store has confirmed it: the lock is free, or its next holder has it. Or a task of the same client has it now,
    /// by the same claim: then the store was not asked.
    Confirmed,
    /// The store has not confirmed it yet, for this reason: it did not answer in time, cannot be reached, or refused.
    /// The keeper repeats it in the background, until the store confirms it or the lease has ended.
    OnItsWay(Error),
}

impl Released {
    /// Whether the store has confirmed it.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed)
    }

    /// For those who must know that the lock is free, such as tests: an error if it is still on its way.
    ///
    /// # Errors
    /// The reason why the store has not confirmed it.
    pub fn confirmed(self) -> Result<()> {
        match self {
            Self::Confirmed => Ok(()),
            Self::OnItsWay(why) => Err(why),
        }
    }

    /// The outcome by the store's answer. Only a loss is an error: after any other one the keeper goes on.
    pub(crate) fn of(answer: Result<()>) -> Result<Self> {
        match answer {
            Ok(()) => Ok(Self::Confirmed),
            Err(error) if error.kind() == ErrorKind::Lost => Err(error),
            Err(error) => Ok(Self::OnItsWay(error)),
        }
    }

    /// The outcome of two releases together.
    pub(crate) fn and(self, other: Self) -> Self {
        if self.is_confirmed() { other } else { self }
    }
}
