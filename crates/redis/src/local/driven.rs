//! Detects whether a caller's runtime polls its tasks: the program may block it, or no longer drive it.
//!
//! A slow network must not look like that. So this does not time a server's reply, but the answer of a task on that
//! runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::dial;

/// A task on a runtime, shared with the observers that check whether it is polled.
#[derive(Debug, Default)]
pub(super) struct Driven {
    asked: Notify,
    polls: AtomicU64,
}

impl Driven {
    /// Answers observers, for as long as it is polled.
    pub(super) async fn answer(&self) {
        loop {
            self.asked.notified().await;
            self.polls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the task does not answer. The first question comes only after half of `longest`, so a short wait
    /// wakes nothing on that runtime; then there is one question per `longest`.
    pub(super) async fn is_no_more(self: Arc<Self>, longest: Duration) {
        loop {
            dial::pause(longest / 2).await;
            let before = self.polls.load(Ordering::Relaxed);
            self.asked.notify_one();
            dial::pause(longest / 2).await;
            if self.polls.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_task_that_is_polled_is_trusted_for_as_long_as_it_takes() {
        let driven = Arc::new(Driven::default());
        tokio::select! {
            () = driven.answer() => {}
            () = driven.clone().is_no_more(SHORT) => panic!("it is polled"),
            () = dial::pause(SHORT * 5) => {}
        }
    }

    #[tokio::test]
    async fn a_task_that_is_polled_no_more_is_found_out() {
        let driven = Arc::new(Driven::default());
        tokio::select! {
            biased;
            () = driven.answer() => {}
            () = dial::pause(SHORT) => {}
        }
        let found_out = driven.is_no_more(SHORT);
        assert!(tokio::time::timeout(SHORT * 50, found_out).await.is_ok());
    }
}
