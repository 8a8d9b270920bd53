//! Seeded faults that take more than a flag. Without the private `tidelock_fault` cfg all of them answer no.

use crate::{Kind, Weight};

/// Whether someone who does not fit is passed by those behind who do.
pub(crate) fn is_passed(kind: Kind) -> bool {
    match kind {
        Kind::Semaphore => cfg!(tidelock_fault = "small_passes_large"),
        Kind::RwLock => cfg!(tidelock_fault = "reader_passes_writer"),
        Kind::Mutex => false,
    }
}

/// Whether a claim waits for those behind it.
pub(crate) fn waits_for_later(kind: Kind, weight: Weight, behind: usize) -> bool {
    let writer = kind == Kind::RwLock && weight == Weight::MAX;
    cfg!(tidelock_fault = "writer_waits_for_later_readers") && writer && behind > 0
}
