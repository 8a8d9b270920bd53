//! An answer that comes later.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tidelock_core::Result;

use crate::time::lock;

/// An answer, when it has come.
pub(super) struct Answer<T>(Arc<Mutex<Expected<T>>>);

/// An answer that has come, and who waits for it.
type Expected<T> = (Option<Result<T>>, Option<Waker>);

impl<T> Answer<T> {
    pub(super) fn expected() -> Self {
        Self(Arc::new(Mutex::new((None, None))))
    }

    pub(super) fn answer(&self, reply: Result<T>) {
        let waker = {
            let mut state = lock(&self.0);
            state.0 = Some(reply);
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = lock(&self.0);
        match state.0.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The outcome of a call of the memory backend, which answers at once.
pub(super) fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("the memory backend answers at once"),
    }
}
