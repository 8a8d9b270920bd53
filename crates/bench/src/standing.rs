//! The memory of a task that stands in line.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::exclusion::Exclusion;
use crate::resident::resident;

/// The growth of this process in bytes, for each of this many tasks, while all stand in line behind a holder. Only the
/// first call in a process is right: later ones get memory that the first one gave back.
pub(crate) async fn resident_of_each<E: Exclusion>(lock: &E, tasks: usize) -> Result<f64> {
    let held = lock.take().await?;
    let before = resident()?;
    let standing = stand(lock, tasks).await?;
    let grown = resident()? - before;
    drop(standing); // all leave the line
    lock.give_back(held).await?;
    Ok(grown / tasks as f64)
}

/// This many tasks; they stand in line when this returns.
async fn stand<E: Exclusion>(lock: &E, tasks: usize) -> Result<JoinSet<Result<()>>> {
    let (mut standing, asked) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..tasks {
        let (lock, asked) = (lock.clone(), asked.clone());
        standing.spawn(async move {
            asked.fetch_add(1, Ordering::AcqRel);
            let held = lock.take().await?;
            lock.give_back(held).await
        });
    }
    while asked.load(Ordering::Acquire) < tasks {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    lock.stand(tasks + 1).await?;
    Ok(standing)
}
