//! A bound on how long something may take, on the backend's own clock.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Clock, Error, ErrorKind, Moment, Result, Sleep};

/// What the future gives, or `None` when `clock` says `at` first. It costs no alarm if the future is ready at once.
pub(crate) async fn by<F: Future>(clock: &Arc<dyn Clock>, at: Moment, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut sleep = pin!(Sleep::until(clock, at));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// The store's answer, or an error that it did not come by `at`.
pub(crate) async fn answer_by<T>(
    clock: &Arc<dyn Clock>,
    at: Moment,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let none = || Err(Error::new(ErrorKind::Timeout, "the store did not answer in time"));
    by(clock, at, answer).await.unwrap_or_else(none)
}

/// The store's answer, or an error that it did not come within `longest`.
pub(crate) async fn answer_within<T>(
    clock: &Arc<dyn Clock>,
    longest: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    answer_by(clock, clock.now() + longest, answer).await
}

/// What the future gives, if it gives it at once. Otherwise somebody has to poll it again.
pub(crate) fn at_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
