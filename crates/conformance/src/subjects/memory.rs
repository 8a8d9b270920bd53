//! The memory backend under trial.

use std::sync::Arc;

use super::Seam;
use crate::{Belief, Mishap};

/// The memory backend, on a clock that is turned by hand.
#[must_use]
pub fn memory() -> Seam {
    Seam::new("memory", |time| Arc::new(time.store()))
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
        .believing(Mishap::FailOver, Belief::CannotHappen("a process's memory has no replica".into()))
        .believing(
            Mishap::ClockStep,
            Belief::CannotHappen("it goes by the boot clock, which never steps, and so do its clients".into()),
        )
}
