//! What a backend's deadlines count on.

use std::fmt;

use crate::alarms::Alarms;
use crate::moment::Moment;

/// The clock for a backend's deadlines. Use [`boot_clock`](crate::backend::boot_clock) wherever time is real.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current moment. It is asked under locks: it must not ring the alarms, nor use any lock of this crate.
    fn now(&self) -> Moment;
    /// The alarms on this clock. The code that drives the clock has to ring them.
    fn alarms(&self) -> &Alarms;
}
