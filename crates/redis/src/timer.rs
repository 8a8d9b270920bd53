//! The timers of a link. A link lives on the keeper's runtime, which has tokio's timers; what may run on a caller's runtime
//! waits by the boot clock (`dial::pause`).

use std::time::Instant;

pub(crate) use tokio::time::{sleep, timeout};

pub(crate) fn now() -> Instant {
    Instant::now()
}
