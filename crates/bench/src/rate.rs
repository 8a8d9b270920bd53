//! How many pairs of take and give-back some tasks do in a slice.
//!
//! The tasks begin together, and none gives back before all have asked. Otherwise, on a fast store, the first task
//! would be done before the last has come, and no line would form. At the end of the slice they count what they have
//! finished. No task reads a clock in between, because that would be a large part of the measured time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};

use crate::Result;
use crate::exclusion::Exclusion;

/// Pairs per second of these tasks together.
pub(crate) async fn pairs_per_second<E: Exclusion>(tasks: &[E], slice: Duration) -> Result<f64> {
    let over = Arc::new(AtomicBool::new(false));
    let (start, mut working) = (Start::of(tasks.len()), JoinSet::<Result<u64>>::new());
    for task in tasks {
        working.spawn(until_over(task.clone(), start.clone(), over.clone()));
    }
    start.begin.wait().await;
    let began = Instant::now();
    tokio::time::sleep(slice).await;
    over.store(true, Ordering::Relaxed);
    let took = began.elapsed();
    let mut pairs = 0;
    while let Some(done) = working.join_next().await {
        pairs += done??;
    }
    Ok(pairs as f64 / took.as_secs_f64())
}

/// The same tasks, each doing exactly this many pairs: for counts.
pub(crate) async fn pairs_each<E: Exclusion>(tasks: &[E], pairs: usize) -> Result<()> {
    let (start, mut working) = (Start::of(tasks.len()), JoinSet::<Result<()>>::new());
    for task in tasks {
        working.spawn(so_many(task.clone(), start.clone(), pairs));
    }
    start.begin.wait().await;
    while let Some(done) = working.join_next().await {
        done??;
    }
    Ok(())
}

/// How the tasks of one slice begin together.
struct Start {
    begin: Barrier,
    tasks: usize,
    asked: AtomicUsize,
}

impl Start {
    /// For this many tasks and the caller that starts them.
    fn of(tasks: usize) -> Arc<Self> {
        Arc::new(Self { begin: Barrier::new(tasks + 1), tasks, asked: AtomicUsize::new(0) })
    }

    async fn first_pair<E: Exclusion>(&self, task: &E) -> Result<()> {
        self.begin.wait().await;
        self.asked.fetch_add(1, Ordering::AcqRel);
        let held = task.take().await?;
        while self.asked.load(Ordering::Acquire) < self.tasks {
            yield_now().await;
        }
        task.give_back(held).await
    }
}

async fn until_over<E: Exclusion>(task: E, start: Arc<Start>, over: Arc<AtomicBool>) -> Result<u64> {
    start.first_pair(&task).await?;
    let mut pairs = 0;
    while !over.load(Ordering::Relaxed) {
        pairs += 1;
        task.give_back(task.take().await?).await?;
    }
    Ok(pairs)
}

async fn so_many<E: Exclusion>(task: E, start: Arc<Start>, pairs: usize) -> Result<()> {
    start.first_pair(&task).await?;
    for _ in 1..pairs {
        task.give_back(task.take().await?).await?;
    }
    Ok(())
}
