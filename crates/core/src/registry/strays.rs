//! Strays: claims of this session that have left, and stand in line all the same.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Mutex;
use crate::{ClaimId, Name};

/// The strays that the keeper does not know yet.
#[derive(Debug)]
pub(crate) struct Strays {
    /// Those of which the line is remembered. The keeper is to give them back.
    found: Mutex<Vec<(Name, ClaimId)>>,
    /// Whether there are others. The keeper is to renew everything, which finds them.
    has_unknown: AtomicBool,
}

impl Strays {
    pub(super) fn new() -> Self {
        Self { found: Mutex::new(Vec::new()), has_unknown: AtomicBool::new(false) }
    }

    /// A stray was reported: one that has left this line, if that is remembered.
    pub(super) fn add(&self, id: ClaimId, line: Option<Name>) {
        match line {
            Some(name) => self.found.lock().push((name, id)),
            None => self.has_unknown.store(true, Ordering::Release),
        }
    }

    /// The strays that the keeper is to give back.
    pub(crate) fn take(&self) -> Vec<(Name, ClaimId)> {
        std::mem::take(&mut *self.found.lock())
    }

    /// Whether there is a stray that only a renewal can find.
    pub(crate) fn take_unknown(&self) -> bool {
        self.has_unknown.swap(false, Ordering::AcqRel)
    }
}
