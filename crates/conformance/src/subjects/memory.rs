//! The memory backend under trial.

use std::sync::Arc;
use std::time::Duration;

use tidelock_memory::Store;

use super::Seam;
use crate::{Belief, Mishap};

/// How long claims live in real time.
const SHORT_TTL: Duration = Duration::from_secs(2);

/// The memory backend with a clock that the trial turns by hand.
#[must_use]
pub fn memory() -> Seam {
    declare(Seam::new("memory", |time| Arc::new(time.store())))
}

/// The memory backend on the boot clock, tested like a server: each ttl takes real time.
#[must_use]
pub fn memory_in_real_time() -> Seam {
    declare(Seam::new("memory in real time", |_| Arc::new(Store::new())).in_real_time(SHORT_TTL))
}

fn declare(memory: Seam) -> Seam {
    memory
        .assuming("The clients share one `Store` in one process.")
        .assuming(
            "The caller checks its guard before each write: a write that is already on its way when the guard is \
             lost may still arrive.",
        )
        .assuming("The store and its tokens last as long as the process.")
        .believing(
            Mishap::Eviction,
            Belief::MayOverlap("an evicted holder learns of it by a signal, or at its next renewal".into()),
        )
        .believing(
            Mishap::StoppedClient,
            Belief::MayOverlap("a client stopped between checking its guard and writing does not check again".into()),
        )
        .believing(Mishap::Restart, Belief::NeverOverlaps)
        .believing(Mishap::Forgetting, Belief::CannotHappen("nothing outside a process reaches its memory".into()))
        .believing(Mishap::FailOver, Belief::CannotHappen("a process's memory has no replica".into()))
        .believing(
            Mishap::ClockStep,
            Belief::CannotHappen("the store and its clients use the boot clock, which never steps".into()),
        )
}
