//! Random numbers: the operating system's, or those of a simulation's seed.

#[cfg(not(tidelock_simulation))]
use getrandom as imp;

#[cfg(tidelock_simulation)]
use crate::simulation as imp;
use crate::{Error, ErrorKind, Result};

/// A number that no other process draws.
pub(crate) fn number() -> Result<u64> {
    imp::u64().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the operating system gave no random numbers").because(error)
    })
}
