//! One case of `own` or `hot`: some tasks of ours beside some of the twin's, and what a pair of ours asks of the store.

use std::sync::Arc;

use tidelock::Locks;

use super::Plan;
use crate::Result;
use crate::count::Counts;
use crate::figure::Unit;
use crate::ours::{self, Ours};
use crate::rate::{pairs_each, pairs_per_second};
use crate::report::Row;
use crate::slices::turns;
use crate::subject::Subject;

/// Enough to count by.
const COUNTED: usize = 100;

/// A case: how many clients there are, and what their tasks lock.
pub(super) struct Case<F> {
    pub(super) called: String,
    pub(super) clients: usize,
    /// One for each task.
    pub(super) locks: F,
}

impl<F: Fn(&[Arc<dyn Locks>]) -> Result<Vec<Ours>>> Case<F> {
    pub(super) async fn row<S: Subject>(&self, subject: &S, plan: &Plan, bare: &[S::Bare]) -> Result<Row> {
        let clients = ours::clients(subject, self.clients).await?;
        let locks = (self.locks)(&clients)?;
        let rates = turns(plan.slices, async || {
            Ok((pairs_per_second(bare, plan.slice).await?, pairs_per_second(&locks, plan.slice).await?))
        });
        let rates = rates.await?;
        ours::close(clients).await?;
        let row = Row::new(&self.called, Unit::Rate).bare(rates.iter().map(|(bare, _)| *bare));
        Ok(row.ours(rates.iter().map(|(_, ours)| *ours)).counts(self.count(subject).await?))
    }

    async fn count<S: Subject>(&self, subject: &S) -> Result<Counts> {
        let counted = subject.counted().await?;
        let clients = ours::clients(&counted, self.clients).await?;
        let locks = (self.locks)(&clients)?;
        pairs_each(&locks, 1).await?; // opens the sessions
        let before = counted.counts().await?;
        pairs_each(&locks, COUNTED).await?;
        let counts = counted.counts().await? - before;
        ours::close(clients).await?;
        Ok(counts.per(locks.len() * COUNTED))
    }
}
