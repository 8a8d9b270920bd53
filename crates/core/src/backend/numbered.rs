//! The number of a new claim.

use std::any::Any;
use std::fmt;

/// The number of a new claim, and what the store keeps aside for it.
///
/// What is kept is dropped when core has forgotten the claim: nobody asks for it any more, except to take it out of a
/// line where it should not be.
pub struct Numbered {
    /// The number.
    pub number: u64,
    /// What is kept for the claim.
    pub kept: Option<Kept>,
}

/// Whatever a store keeps aside for a claim.
pub type Kept = Box<dyn Any + Send + Sync>;

impl From<u64> for Numbered {
    /// A number for which nothing is kept.
    fn from(number: u64) -> Self {
        Self { number, kept: None }
    }
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered")
            .field("number", &self.number)
            .field("is_kept_for", &self.kept.is_some())
            .finish()
    }
}
