//! The server's clock, read once when the session opens.

use std::time::Duration;

use tidelock_core::backend::Moment;

/// The time of the server's clock at a moment of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTime {
    pub(crate) millis: i64,
    pub(crate) at: Moment,
}

impl ServerTime {
    /// The time since `then`, by the server's clock.
    pub(crate) fn since(self, then: i64, now: Moment) -> Duration {
        let passed = i64::try_from(now.since(self.at).as_millis()).unwrap_or(i64::MAX);
        let since = self.millis.saturating_add(passed).saturating_sub(then);
        Duration::from_millis(u64::try_from(since).unwrap_or(0))
    }
}
