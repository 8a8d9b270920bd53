//! Strays: claims of this session that have left, and stand in line all the same.

use crate::sync::Mutex;
use crate::{ClaimId, Name};

/// The strays that the keeper does not know yet.
#[derive(Debug)]
pub(crate) struct Strays {
    /// Those of which the line is remembered. The keeper is to give them back.
    found: Mutex<Vec<(Name, ClaimId)>>,
    /// The others. The keeper is to renew everything, which finds them.
    unknown: Mutex<Vec<ClaimId>>,
}

impl Strays {
    pub(super) fn new() -> Self {
        Self { found: Mutex::new(Vec::new()), unknown: Mutex::new(Vec::new()) }
    }

    /// A stray was reported: one that has left this line, if that is remembered.
    pub(super) fn add(&self, id: ClaimId, line: Option<Name>) {
        match line {
            Some(name) => self.found.lock().push((name, id)),
            None => self.unknown.lock().push(id),
        }
    }

    /// The strays that the keeper is to give back.
    pub(crate) fn take(&self) -> Vec<(Name, ClaimId)> {
        std::mem::take(&mut *self.found.lock())
    }

    /// The strays that only a renewal can find.
    pub(crate) fn take_unknown(&self) -> Vec<ClaimId> {
        std::mem::take(&mut *self.unknown.lock())
    }
}
