//! A bound on how long something may take, on the backend's own clock.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Clock, Error, ErrorKind, Moment, Result, Sleep};

/// What the future gives, or `None` when `clock` says `at` first.
///
/// The clock is read, and an alarm set, only if the future is not ready at once: most stores in a process's own
/// memory are, and neither is free.
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

/// The store's answer, or an error that it did not come within `longest`.
pub(crate) async fn answer_within<T>(
    clock: &Arc<dyn Clock>,
    longest: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    by(clock, |now| now + longest, answer).await.unwrap_or_else(|| Err(no_answer()))
}

/// The store has not answered in time.
pub(crate) fn no_answer() -> Error {
    Error::new(ErrorKind::Timeout, "the store did not answer in time")
}

/// What the future gives, if it gives it at once. Otherwise somebody has to poll it again.
pub(crate) fn at_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
