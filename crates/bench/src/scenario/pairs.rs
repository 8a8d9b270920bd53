//! One case of `own` or `hot`: some tasks of ours beside some of each twin's, and what a pair of ours asks of the store.

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
use crate::subject::{Subject, Twin};

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
    /// A row beside each twin. The first has the counts.
    pub(super) async fn rows<S: Subject>(
        &self,
        subject: &S,
        plan: &Plan,
        twins: &[Twin<S::Bare>],
    ) -> Result<Vec<Row>> {
        let clients = ours::clients(subject, self.clients).await?;
        let locks = (self.locks)(&clients)?;
        let rates = turns(plan.slices, async || {
            let mut bare = Vec::with_capacity(twins.len());
            for twin in twins {
                bare.push(pairs_per_second(&twin.tasks, plan.slice).await?);
            }
            Ok((bare, pairs_per_second(&locks, plan.slice).await?))
        });
        let rates = rates.await?;
        ours::close(clients).await?;
        let row = |(i, twin): (usize, &Twin<S::Bare>)| {
            let row = Row::new(self.beside(i, twin.called), Unit::Rate);
            row.bare(rates.iter().map(|(bare, _)| bare[i])).ours(rates.iter().map(|(_, ours)| *ours))
        };
        let mut rows: Vec<Row> = twins.iter().enumerate().map(row).collect();
        let counts = self.count(subject).await?;
        if let Some(first) = rows.first_mut() {
            first.counts = Some(counts);
        }
        Ok(rows)
    }

    /// Only what is not the twin of the whole table is named again.
    fn beside(&self, twin: usize, called: &str) -> String {
        if twin == 0 { self.called.clone() } else { format!("{}, beside {called}", self.called) }
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
