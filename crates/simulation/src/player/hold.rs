//! A hold: its end is recorded before the lock hears of it.

use std::sync::Arc;

use tidelock_core::{Guard, Locks, ReentrantGuard, Result, StripeGuard, WriteGuard};

use crate::record::Record;

/// A guard of whichever kind.
pub(super) enum AnyGuard {
    Plain(Guard),
    Write(WriteGuard),
    /// Two of one owner.
    Twice(ReentrantGuard, Option<ReentrantGuard>),
    Stripe(StripeGuard),
}

impl AnyGuard {
    pub(super) fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Write(guard) => guard,
            Self::Twice(guard, _) => guard,
            Self::Stripe(guard) => guard,
        }
    }

    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Plain(guard) => guard.release().await.map(drop),
            Self::Write(guard) => guard.release().await.map(drop),
            Self::Twice(guard, inner) => {
                if let Some(inner) = inner {
                    inner.release().await?;
                }
                guard.release().await.map(drop)
            }
            Self::Stripe(guard) => guard.release().await.map(drop),
        }
    }
}

/// A hold, whose end is recorded before its guard is dropped.
pub(super) struct Hold {
    pub(super) claim: u64,
    pub(super) record: Arc<Record>,
    pub(super) guard: Option<AnyGuard>,
    /// A client with a lifetime of its own, which ends with the hold.
    #[expect(dead_code, reason = "it is dropped after the guard")]
    pub(super) own: Option<Arc<dyn Locks>>,
}

impl Hold {
    pub(super) fn new(
        record: &Arc<Record>,
        claim: u64,
        guard: AnyGuard,
        own: Option<Arc<dyn Locks>>,
    ) -> Self {
        record.granted(claim, guard.guard());
        Self { claim, record: record.clone(), guard: Some(guard), own }
    }

    pub(super) fn let_go(&mut self) -> Option<AnyGuard> {
        let guard = self.guard.take();
        if guard.is_some() {
            self.record.let_go(self.claim);
        }
        guard
    }

    pub(super) async fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let was_held = self.record.let_go(self.claim);
        let released = guard.release().await;
        self.record.released(self.claim, was_held, &released);
        released
    }

    /// A writer becomes a reader; any other guard stays as it is.
    pub(super) async fn downgrade(mut self) -> Result<Self> {
        match self.guard.take() {
            Some(AnyGuard::Write(writer)) => {
                self.record.lightens(self.claim);
                let mut downgrade = Box::pin(writer.downgrade());
                // If this is dropped, the end is recorded before the lock hears of it.
                let mut ending = Ending { claim: self.claim, record: self.record.clone(), is_settled: false };
                let reader = downgrade.as_mut().await?;
                ending.is_settled = true;
                self.record.lightened(self.claim);
                self.guard = Some(AnyGuard::Plain(reader));
            }
            other => self.guard = other,
        }
        Ok(self)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

/// A hold that ends if this is dropped before it is settled.
struct Ending {
    claim: u64,
    record: Arc<Record>,
    is_settled: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_settled {
            self.record.let_go(self.claim);
        }
    }
}

/// Holds that end together.
pub(super) struct Endings {
    pub(super) claims: Arc<[u64]>,
    pub(super) record: Arc<Record>,
}

impl Drop for Endings {
    fn drop(&mut self) {
        for claim in self.claims.iter() {
            self.record.let_go(*claim);
        }
    }
}
