//! A job that only one of many schedulers does: `try_lock`, and a marker that says it was done.
//!
//! The lock alone is not enough. A scheduler whose clock is late finds the lock free again after the job is done. The
//! marker, checked under the lock, keeps it from doing the job twice.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_memory::{Locks, Options, Store};
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};

const SCHEDULERS: usize = 5;

/// The database: which days were done, and how often the job ran.
#[derive(Debug, Default)]
struct Reports {
    done: Mutex<BTreeSet<&'static str>>,
    runs: Mutex<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Did,
    /// Another scheduler is doing it.
    Busy,
    /// It was done before.
    Done,
}

impl Reports {
    fn is_done(&self, day: &str) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).contains(day)
    }

    async fn make(&self, day: &'static str) {
        yield_now().await;
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        // The marker is written with the report, in one transaction.
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(day);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let reports = Arc::new(Reports::default());
    let midnight = Arc::new(Barrier::new(SCHEDULERS));

    let mut schedulers = JoinSet::new();
    for number in 0..SCHEDULERS {
        let locks = store.connect(Options::new().label(&format!("scheduler {number}"))).await?;
        let (reports, midnight) = (reports.clone(), midnight.clone());
        schedulers.spawn(async move {
            midnight.wait().await;
            let outcome = tick(&*locks, &reports, "2031-05-04").await;
            locks.close().await.and(outcome)
        });
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = schedulers.join_next().await {
        outcomes.push(outcome??);
    }
    println!("{SCHEDULERS} schedulers at midnight: {outcomes:?}");
    let did = outcomes.iter().filter(|outcome| **outcome == Outcome::Did).count();
    assert_eq!(did, 1);

    // A scheduler whose clock is late: the lock is free, and the job is done.
    let late = store.connect(Options::new().label("late scheduler")).await?;
    let outcome = tick(&*late, &reports, "2031-05-04").await?;
    println!("a scheduler whose clock is late: {outcome:?}");
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(*reports.runs.lock().unwrap_or_else(PoisonError::into_inner), 1);

    late.close().await?;
    Ok(())
}

async fn tick(locks: &dyn Locks, reports: &Reports, day: &'static str) -> tidelock_memory::Result<Outcome> {
    let Some(guard) = locks.mutex("job:daily report")?.try_lock().await? else {
        return Ok(Outcome::Busy);
    };
    let outcome = if reports.is_done(day) {
        Outcome::Done
    } else {
        guard.run(reports.make(day)).await?; // stops if the lock is lost meanwhile
        Outcome::Did
    };
    guard.release().await?;
    Ok(outcome)
}
