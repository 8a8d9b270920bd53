//! The size of every measurement.

use std::time::Duration;

/// The size of every measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of slices for each side.
    pub(crate) slices: usize,
    /// The duration of a slice, if slices are timed.
    pub(crate) slice: Duration,
    /// The number of hand-offs in a slice.
    pub(crate) hand_offs: usize,
    /// The same for long lines: checking that a long line is full again takes longer than the hand-off.
    pub(crate) long_hand_offs: usize,
    /// How many more tasks stand in a long line.
    pub(crate) parked: usize,
    /// The number of buyers.
    pub(crate) buyers: usize,
    /// How many names one client holds when their memory and renewal are measured.
    pub(crate) names: usize,
    /// How many names one client holds while others are taken.
    pub(crate) held: usize,
    /// For how long a hold is passed on among the tasks of a client, where that is measured.
    pub(crate) linger: Duration,
    /// The duration of a slice in which crowds hold a name for a while.
    pub(crate) crowd_slice: Duration,
}
