//! Commands that must be sent even if the caller drops their reply.
//!
//! The library does not send a command when nobody waits for its reply any more. So a dropped reply moves to the
//! keeper's runtime, which waits for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidelock_core::Result;
use tidelock_core::backend::Reply;
use tokio::runtime::Handle;

/// A reply that always has somebody who waits for it.
pub(crate) struct SeenThrough<T: Send + 'static> {
    /// `None` once it has come.
    reply: Option<Reply<T>>,
    runtime: Handle,
}

impl<T: Send + 'static> SeenThrough<T> {
    pub(crate) fn new(reply: Reply<T>, runtime: Handle) -> Self {
        Self { reply: Some(reply), runtime }
    }
}

impl<T: Send + 'static> Future for SeenThrough<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reply) = &mut self.reply else { return Poll::Pending };
        let answer = std::task::ready!(reply.as_mut().poll(cx));
        self.reply = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for SeenThrough<T> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take().filter(|_| !seeded!("a_leave_is_given_up")) {
            self.runtime.spawn(reply);
        }
    }
}
