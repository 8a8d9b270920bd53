//! Which names were taken when this client last tried. Such a try begins with a read, which no member has to write down.
//!
//! This takes no more room however many names are tried: a name is known by a number, and two names may share a place.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock_core::Name;

const PLACES: usize = 64;

/// The last refusals.
#[derive(Debug)]
pub(crate) struct Busy {
    hasher: RandomState,
    places: [AtomicU64; PLACES],
}

impl Default for Busy {
    fn default() -> Self {
        Self { hasher: RandomState::new(), places: [const { AtomicU64::new(0) }; PLACES] }
    }
}

impl Busy {
    /// Whether the last try of this name was refused, as far as is known.
    pub(crate) fn has(&self, name: &Name) -> bool {
        let number = self.number(name);
        self.place(number).load(Ordering::Relaxed) == number
    }

    /// A try was refused, or not.
    pub(crate) fn note(&self, name: &Name, is_busy: bool) {
        let number = self.number(name);
        let place = self.place(number);
        if is_busy {
            place.store(number, Ordering::Relaxed);
        } else {
            let _ = place.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn number(&self, name: &Name) -> u64 {
        self.hasher.hash_one(name).max(1)
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        let place = usize::try_from(number % PLACES as u64).unwrap_or(0);
        &self.places[place]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // all of this is a test
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_until_a_try_succeeds() {
        let (busy, [a, b]) = (Busy::default(), ["a", "b"].map(|name| Name::new(name).unwrap()));
        assert!(!busy.has(&a));
        busy.note(&a, true);
        assert!(busy.has(&a) && !busy.has(&b));
        busy.note(&a, false);
        assert!(!busy.has(&a));
    }
}
