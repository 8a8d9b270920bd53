//! Spans in the user's tracing. A subscriber may panic, even at the end of a span while its user is panicking, where
//! a second panic would abort the process. Here such a panic harms nobody.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::level_filters::LevelFilter;

use crate::shield::unharmed;

#[derive(Debug)]
pub(crate) struct Span(tracing::Span);

impl Span {
    pub(crate) fn none() -> Self {
        Self(tracing::Span::none())
    }

    /// The span that `make` creates, if the level `DEBUG` is enabled.
    pub(crate) fn debug(make: impl FnOnce() -> tracing::Span) -> Self {
        let mut made = Self::none();
        if LevelFilter::current() >= LevelFilter::DEBUG {
            unharmed(|| made.0 = make());
        }
        made
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.0.is_disabled()
    }

    /// Sets a field that was left empty.
    pub(crate) fn record(&self, field: &'static str, value: impl tracing::Value) {
        if !self.is_disabled() {
            unharmed(|| {
                self.0.record(field, value);
            });
        }
    }

    pub(crate) fn follows_from(&self, before: &Self) {
        if !self.is_disabled() {
            unharmed(|| {
                self.0.follows_from(&before.0);
            });
        }
    }

    /// The future inside this span: while it is polled, and while it is dropped.
    pub(crate) fn around<F: Future>(&self, future: F) -> Inside<'_, F> {
        Inside { span: self, future: Some(Box::pin(future)) }
    }

    fn enter(&self) -> Entered<'_> {
        let mut entered = Entered(None);
        unharmed(|| entered.0 = Some(self.0.enter()));
        entered
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if !self.is_disabled() {
            let ends = std::mem::replace(&mut self.0, tracing::Span::none());
            unharmed(|| drop(ends));
        }
    }
}

struct Entered<'a>(Option<tracing::span::Entered<'a>>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        unharmed(|| drop(self.0.take()));
    }
}

/// A future inside a span. It is boxed because `around` moves all of it, and programs that do not trace should not
/// pay for that.
pub(crate) struct Inside<'a, F> {
    span: &'a Span,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Inside<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.span.enter();
        self.future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(cx))
    }
}

impl<F> Drop for Inside<'_, F> {
    fn drop(&mut self) {
        let _entered = self.span.enter();
        self.future = None;
    }
}
