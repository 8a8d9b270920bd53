//! The memory backend under trial.

use std::sync::Arc;
use std::time::Duration;

use tidelock_memory::Store;

use super::Seam;
use crate::{Belief, Mishap};

/// How long claims live in real time.
const SHORT_TTL: Duration = Duration::from_secs(2);

/// The memory backend, on a clock that is turned by hand.
#[must_use]
pub fn memory() -> Seam {
    declare(Seam::new("memory", |time| Arc::new(time.store())))
}

/// The memory backend on the boot clock, as a server would be tried: it takes as many ttls as the trials let pass.
#[must_use]
pub fn memory_in_real_time() -> Seam {
    declare(Seam::new("memory in real time", |_| Arc::new(Store::new())).in_real_time(SHORT_TTL))
}

fn declare(memory: Seam) -> Seam {
    memory
        .assuming("The clients share one `Store` in one process.")
        .assuming("A guard is looked at before each write: work that is under way when it is lost may still arrive.")
        .assuming("The store, and its tokens, last as long as the process.")
        .believing(
            Mishap::Eviction,
            Belief::MayOverlap("an evicted holder learns of it by a signal, or at its next renewal".into()),
        )
        .believing(
            Mishap::StoppedClient,
            Belief::MayOverlap("whoever is stopped between looking at its guard and writing does not look again".into()),
        )
        .believing(Mishap::Restart, Belief::NeverOverlaps)
        .believing(Mishap::Forgetting, Belief::CannotHappen("nobody else reaches a process's memory".into()))
        .believing(Mishap::FailOver, Belief::CannotHappen("a process's memory has no replica".into()))
        .believing(
            Mishap::ClockStep,
            Belief::CannotHappen("it goes by the boot clock, which never steps, and so do its clients".into()),
        )
}
