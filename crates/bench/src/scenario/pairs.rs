//! One case of `own`, `hot` or `cohort`: some tasks of ours beside some of each twin's, and the store's work for one of
//! our pairs.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Locks;

use super::plan::Plan;
use crate::Result;
use crate::count::Counts;
use crate::effort::Effort;
use crate::exclusion::Exclusion;
use crate::figure::Unit;
use crate::ours::{self, Ours};
use crate::rate::{pairs_each, pairs_per_second};
use crate::report::Row;
use crate::slices::turns;
use crate::subject::{Subject, Twin};

/// Enough pairs to count by.
const COUNTED: usize = 100;

pub(super) type Clients = [Arc<dyn Locks>];

/// One side's slice.
#[derive(Clone, Copy)]
struct Slice {
    rate: f64,
    /// For one pair.
    effort: Effort,
}

/// A case: the clients, and the locks of their tasks.
pub(super) struct Case<F> {
    pub(super) called: String,
    pub(super) clients: usize,
    pub(super) linger: Duration,
    /// One for each task.
    pub(super) locks: F,
}

impl<F: Fn(&Clients) -> Result<Vec<Ours>>> Case<F> {
    /// A row beside each twin. The first row has the counts.
    pub(super) async fn rows<S: Subject, B: Exclusion>(
        &self,
        subject: &S,
        plan: &Plan,
        twins: &[Twin<B>],
    ) -> Result<Vec<Row>> {
        let clients = ours::clients(subject, self.clients, self.linger).await?;
        let locks = (self.locks)(&clients)?;
        let slices = turns(plan.slices, async || {
            let mut bare = Vec::with_capacity(twins.len());
            for twin in twins {
                bare.push(slice(subject, &twin.tasks, plan).await?);
            }
            Ok((bare, slice(subject, &locks, plan).await?))
        });
        let slices = slices.await?;
        ours::close(clients).await?;
        let row = |called: String, unit, i: usize, pick: fn(&Slice) -> Option<f64>| {
            let row = Row::new(called, unit).bare(slices.iter().filter_map(|(bare, _)| pick(&bare[i])));
            row.ours(slices.iter().filter_map(|(_, ours)| pick(ours)))
        };
        let rate = |(i, twin): (usize, &Twin<B>)| {
            row(self.beside(i, twin.called), Unit::Rate, i, |slice| Some(slice.rate))
        };
        let mut rows: Vec<Row> = twins.iter().enumerate().map(rate).collect();
        rows[0].counts = Some(self.count(subject).await?);
        let effort = |whose: &str, pick| row(format!("{}, {whose}", self.called), Unit::Time, 0, pick);
        rows.push(effort("processor time here", |slice| Some(slice.effort.here)));
        rows.push(effort("processor time at the server", |slice| slice.effort.at_the_server));
        rows.retain(|row| row.ours.is_some());
        Ok(rows)
    }

    /// Only a twin other than the table's own is named again.
    fn beside(&self, twin: usize, called: &str) -> String {
        if twin == 0 { self.called.clone() } else { format!("{}, beside {called}", self.called) }
    }

    /// The store's work for one pair.
    pub(super) async fn count<S: Subject>(&self, subject: &S) -> Result<Counts> {
        let counted = subject.counted().await?;
        let clients = ours::clients(&counted, self.clients, self.linger).await?;
        let locks = (self.locks)(&clients)?;
        pairs_each(&locks, 1).await?; // opens the sessions
        let before = counted.counts().await?;
        pairs_each(&locks, COUNTED).await?;
        let counts = counted.counts().await? - before;
        ours::close(clients).await?;
        Ok(counts.per(locks.len() * COUNTED))
    }
}

async fn slice<S: Subject, E: Exclusion>(subject: &S, tasks: &[E], plan: &Plan) -> Result<Slice> {
    let before = Effort::so_far(subject).await?;
    let rate = pairs_per_second(tasks, plan.slice).await?;
    let effort = Effort::so_far(subject).await?.since(before);
    Ok(Slice { rate, effort: effort.per(rate * plan.slice.as_secs_f64()) })
}
