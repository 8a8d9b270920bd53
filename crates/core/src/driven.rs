//! Detects whether a caller's runtime polls its tasks: the program may block it, or no longer drive it.
//!
//! A slow network must not look like that. So this does not time a server's reply, but the answer of a task on that
//! runtime.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

use crate::boot_clock::boot_clock;
use crate::sleep::Sleep;

/// A task on a runtime, shared with the observers that check whether it is polled.
#[derive(Debug, Default)]
pub struct Driven {
    asked: Notify,
    polls: AtomicU64,
}

impl Driven {
    /// Answers observers, for as long as it is polled.
    pub async fn answer(&self) {
        loop {
            self.asked.notified().await;
            self.polls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the task does not answer. The first question comes only after half of `longest`, so a short wait
    /// wakes nothing on that runtime; then there is one question per `longest`.
    pub async fn is_no_more(self: Arc<Self>, longest: Duration) {
        loop {
            pause(longest / 2).await;
            let before = self.polls.load(Ordering::Relaxed);
            self.asked.notify_one();
            pause(longest / 2).await;
            if self.polls.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

/// How long the keeper trusts a runtime that has a request and does not poll its tasks.
const TRUST: Duration = Duration::from_millis(100);

/// Ready when the keeper polls this and does not trust the runtime any more. Whoever else polls it waits for ever.
pub struct Distrust {
    driven: Arc<Driven>,
    keeper: Id,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Distrust {
    /// Of the runtime on which `driven` answers.
    #[must_use]
    pub fn new(driven: Arc<Driven>, keeper: &Handle) -> Self {
        Self { driven, keeper: keeper.id(), waiting: None }
    }
}

impl Future for Distrust {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_keeper = || Handle::try_current().is_ok_and(|here| here.id() == self.keeper);
        if self.waiting.is_none() && !is_keeper() {
            return Poll::Pending;
        }
        let driven = self.driven.clone();
        self.waiting.get_or_insert_with(|| Box::pin(driven.is_no_more(TRUST))).as_mut().poll(cx)
    }
}

impl fmt::Debug for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distrust").field("is_waiting", &self.waiting.is_some()).finish_non_exhaustive()
    }
}

/// Sleeps, on any runtime.
async fn pause(longest: Duration) {
    let clock = boot_clock();
    Sleep::until(&clock, clock.now() + longest).await;
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
            () = pause(SHORT * 5) => {}
        }
    }

    #[tokio::test]
    async fn a_task_that_is_polled_no_more_is_found_out() {
        let driven = Arc::new(Driven::default());
        tokio::select! {
            biased;
            () = driven.answer() => {}
            () = pause(SHORT) => {}
        }
        let found_out = driven.is_no_more(SHORT);
        assert!(tokio::time::timeout(SHORT * 50, found_out).await.is_ok());
    }
}
