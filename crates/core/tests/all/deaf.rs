//! Signals that ignore everything, for a session that a test opens itself.

use tidelock_core::backend::{Grant, Signals};
use tidelock_core::{ClaimId, Name};

#[derive(Debug)]
pub(crate) struct Deaf;

impl Signals for Deaf {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}
