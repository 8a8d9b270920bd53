//! A time limit that comes also if the store's clock stands still.
//!
//! Deadlines count on the store's clock, and a test may turn that by hand. A task that closes its client turns no
//! clock meanwhile. So the limit of a close counts on the boot clock too: the clock that reaches it first decides.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Clock, Moment, boot_clock};
use crate::deadline;

/// A moment on the store's clock and one on the boot clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    by: Moment,
    really_by: Moment,
}

impl Limit {
    /// `longest` from now.
    pub(crate) fn after(longest: Duration, clock: &Arc<dyn Clock>) -> Self {
        Self { by: clock.now() + longest, really_by: boot_clock().now() + longest }
    }

    /// Half of the time that is left.
    pub(crate) fn halved(self, clock: &Arc<dyn Clock>) -> Self {
        Self::after(self.left(clock) / 2, clock)
    }

    pub(crate) fn is_over(self, clock: &Arc<dyn Clock>) -> bool {
        self.left(clock).is_zero()
    }

    /// The future's output, or `None` if the limit comes first.
    pub(crate) async fn of<F: Future>(self, clock: &Arc<dyn Clock>, future: F) -> Option<F::Output> {
        let really = boot_clock();
        let future = deadline::by(&really, |_| self.really_by, future);
        deadline::by(clock, |_| self.by, future).await.flatten()
    }

    fn left(self, clock: &Arc<dyn Clock>) -> Duration {
        self.by.since(clock.now()).min(self.really_by.since(boot_clock().now()))
    }
}
