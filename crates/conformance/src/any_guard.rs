//! The guard of a hold, whichever kind it is.

use tidelock_core::{Guard, WriteGuard};

/// A guard, or a writer's guard.
#[derive(Debug)]
pub(crate) enum AnyGuard {
    Plain(Guard),
    Write(WriteGuard),
}

impl AnyGuard {
    pub(crate) fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Write(guard) => guard,
        }
    }
}
