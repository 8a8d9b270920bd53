//! The timers of a link in a simulation: alarms of the world's clock. A world's runtime has no timers of its own, because
//! time moves on only when nothing else can run.

use std::time::Duration;

use tidelock_core::backend::{Moment, boot_clock};

pub(crate) use crate::dial::pause as sleep;

/// The time is over.
#[derive(Debug)]
pub(crate) struct Elapsed;

pub(crate) fn now() -> Moment {
    boot_clock().now()
}

/// Runs `work` with a timeout.
pub(crate) async fn timeout<T>(longest: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = sleep(longest) => Err(Elapsed),
    }
}
