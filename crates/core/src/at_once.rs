//! One poll of a future: most in-memory stores answer at once, and then nobody has to be woken.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The future's output if it is ready at once. Otherwise somebody has to poll it again.
pub(crate) fn at_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
