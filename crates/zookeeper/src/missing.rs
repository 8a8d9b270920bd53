//! The replies that are missing on a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_core::backend::{Clock, Moment, Sleep, boot_clock};
use tokio::sync::Notify;

/// Whether replies are missing on a connection.
#[derive(Debug, Default)]
pub(crate) struct MissingReplies {
    state: Mutex<State>,
    /// A request is under way, and before none was.
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// When the last request was sent.
    last: Option<Moment>,
    /// Since when nothing was heard, if a request is under way that may still get a reply.
    since: Option<Moment>,
}

impl MissingReplies {
    /// A request is sent.
    pub(crate) fn ask(self: &Arc<Self>) -> MissingReply {
        let mut state = self.state();
        let now = boot_clock().now();
        state.under_way += 1;
        state.last = Some(now);
        if state.since.is_none() {
            state.since = Some(now);
            self.begun.notify_one();
        }
        drop(state);
        MissingReply(self.clone())
    }

    /// Waits until a request is under way and nothing was heard for that long.
    pub(crate) async fn silent_for(&self, long: impl Fn(Moment) -> Duration, clock: &Arc<dyn Clock>) {
        loop {
            let long = long(clock.now());
            let silent_at = self.state().since.map(|since| since + long);
            match silent_at {
                Some(at) if at <= clock.now() => return,
                Some(at) => Sleep::until(clock, at).await,
                None => {
                    self.begun.notified().await;
                    // The limit cannot be reached before this. Sleeping here also saves a wake-up for each of many
                    // requests.
                    Sleep::until(clock, clock.now() + long).await;
                }
            }
        }
    }

    pub(crate) fn is_silent_since(&self, then: Moment) -> bool {
        self.state().since.is_some_and(|since| since <= then)
    }

    /// All requests sent until then have got their replies: a future that still misses its reply is not being polled.
    pub(crate) fn hears_all_until(&self, then: Moment) {
        let mut state = self.state();
        if state.last.is_none_or(|last| last <= then) {
            state.since = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A missing reply.
pub(crate) struct MissingReply(Arc<MissingReplies>);

impl MissingReply {
    /// The reply has come.
    pub(crate) fn heard(&self) {
        let mut state = self.0.state();
        state.since = (state.under_way > 1).then(|| boot_clock().now());
    }
}

impl Drop for MissingReply {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.since = None;
        }
    }
}
