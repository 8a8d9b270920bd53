//! Seeded faults that take more than a flag. They are seeded in unit tests alone (`seeded.rs`).

use crate::{Claim, Kind, Weight};

/// Whether a claim that does not fit is passed by claims behind it that do.
#[allow(clippy::match_same_arms)] // where no fault is seeded, both are `false`
pub(crate) fn is_passed(kind: Kind) -> bool {
    match kind {
        Kind::Semaphore => seeded!("small_passes_large"),
        Kind::RwLock => seeded!("reader_passes_writer"),
        Kind::Mutex => false,
    }
}

/// Whether a claim waits for claims behind it.
pub(crate) fn waits_for_later(kind: Kind, weight: Weight, behind: usize) -> bool {
    let writer = kind == Kind::RwLock && weight == Weight::MAX;
    seeded!("writer_waits_for_later_readers") && writer && behind > 0
}

/// Takes the hold back from claims that no longer fit.
pub(crate) fn take_back(claims: &mut [Claim], capacity: Weight) {
    let mut sum = 0;
    for claim in claims {
        sum += u64::from(claim.weight.get());
        claim.token = claim.token.filter(|_| sum <= capacity.get().into());
    }
}
