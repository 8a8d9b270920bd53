//! The pause before a session is opened again, after the store has failed to open one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Options;
use crate::backend::{Clock, Moment, Sleep};

/// Until when acquires that keep trying do not open a session again, and how long to pause if the next opening fails
/// too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    until: Moment,
    pub(super) next: Duration,
}

impl Pause {
    /// The pause of this length after an opening that failed at `now`.
    pub(super) fn of(length: Duration, now: Moment, options: &Options) -> Self {
        Self { until: now + length, next: (length * 2).min(options.longest_pause) }
    }
}

/// A pause before an opening. A new caller cuts it short: it must not wait because of failures that earlier callers
/// met.
#[derive(Debug)]
pub(super) struct CurrentPause {
    newcomer: Notify,
    has_newcomer: AtomicBool,
}

impl CurrentPause {
    pub(super) fn before(pause: Option<Pause>) -> Self {
        Self { newcomer: Notify::new(), has_newcomer: AtomicBool::new(pause.is_none()) }
    }

    /// A new caller needs the session.
    pub(super) fn cut_short(&self) {
        self.has_newcomer.store(true, Ordering::Release);
        self.newcomer.notify_one();
    }

    /// Waits until the pause is over, or a new caller has cut it short.
    pub(super) async fn until(&self, clock: &Arc<dyn Clock>, pause: Pause, least: Duration) {
        let soonest = clock.now() + least; // thousands of new callers may come at once
        let cut_short = async {
            self.newcomer.notified().await;
            Sleep::until(clock, soonest).await;
        };
        tokio::select! {
            biased;
            () = Sleep::until(clock, pause.until) => {}
            () = cut_short => {}
        }
    }

    pub(super) fn has_newcomer(&self) -> bool {
        self.has_newcomer.load(Ordering::Acquire)
    }
}
