//! What one that comes to lead has heard of the store.

use crate::backend::Moment;

/// What one that comes to lead has heard of the store, through those before it in the local line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard {
    /// Nothing, or nothing that still holds.
    Nothing,
    /// Nothing, and it waits for that since then.
    NothingSince(Moment),
    /// Others are ahead.
    Wait,
    /// Others were ahead, and since then the store is silent.
    WaitAndNothingSince(Moment),
}
