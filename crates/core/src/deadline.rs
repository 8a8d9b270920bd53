//! A time limit for a future, on the backend's own clock.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Clock;
use crate::moment::Moment;
use crate::sleep::Sleep;
use crate::{Error, Result};

/// The future's output, or `None` if `clock` reaches `at` first.
///
/// The clock is read and an alarm set only if the future is not ready at once. Most in-memory stores are ready at
/// once, and both cost something.
pub(crate) async fn by<F: Future>(
    clock: &Arc<dyn Clock>,
    at: impl FnOnce(Moment) -> Moment,
    future: F,
) -> Option<F::Output> {
    let mut at = Some(at);
    let mut future = pin!(future);
    let mut sleep = None;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            if let Some(at) = at.take() {
                sleep = Some(Sleep::until(clock, at(clock.now())));
            }
            sleep.as_mut().map_or(Poll::Pending, |sleep| Pin::new(sleep).poll(cx).map(|()| None))
        }
    })
    .await
}

/// The store's answer, or a timeout error after `longest`.
pub(crate) async fn answer_within<T>(
    clock: &Arc<dyn Clock>,
    longest: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    by(clock, |now| now + longest, answer).await.unwrap_or_else(|| Err(no_answer()))
}

/// The error for a store that has not answered in time.
pub(crate) fn no_answer() -> Error {
    Error::no_answer("the store")
}
