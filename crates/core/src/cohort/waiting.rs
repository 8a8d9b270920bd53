//! A place in a local line, and the news for who stands there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::backend::{Clock, Moment, Sleep};
use crate::shield;
use crate::sync::Mutex;

/// The place of a task in a local line, as the line sees it.
pub(super) struct Waiter<N> {
    /// When it came, if it came while the store had no answer; otherwise [`Moment::START`].
    pub(super) since: Moment,
    /// Whether it wants to read only.
    pub(super) reads: bool,
    /// How often the store had answered when it came. An answer that says that it has to wait is not counted.
    pub(super) answers: u64,
    stage: Mutex<Stage<N>>,
}

enum Stage<N> {
    Waits(Option<Waker>),
    Told(N),
    /// It has its news, or wants none any more.
    Gone,
}

impl<N> Waiter<N> {
    pub(super) fn new(since: Moment, reads: bool, answers: u64) -> Self {
        Self { since, reads, answers, stage: Mutex::new(Stage::Waits(None)) }
    }

    pub(super) fn waits(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Waits(_))
    }

    /// Tells it, and gives the news back if nobody wants them any more.
    pub(super) fn give(&self, news: N) -> Option<N> {
        let mut stage = self.stage.lock();
        let Stage::Waits(waker) = &mut *stage else {
            drop(stage);
            return Some(news);
        };
        let waker = waker.take();
        *stage = Stage::Told(news);
        drop(stage); // a waker may run anything
        waker.into_iter().for_each(shield::wake);
        None
    }
}

/// A wait in a local line.
///
/// # Cancel safety
/// Whoever drops it has left. What it was told meanwhile goes to the next one.
pub(crate) struct Waiting<N> {
    pub(super) waiter: Arc<Waiter<N>>,
    /// Until its patience ends, if that ever does.
    patience: Option<Box<Sleep>>,
}

impl<N> Waiting<N> {
    pub(super) const fn of(waiter: Arc<Waiter<N>>) -> Self {
        Self { waiter, patience: None }
    }

    /// Its news, or `None` if the clock reaches `by` first.
    pub(crate) fn poll_until(
        &mut self,
        by: Moment,
        clock: impl FnOnce() -> Arc<dyn Clock>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<N>> {
        if let Poll::Ready(news) = Pin::new(&mut *self).poll(cx) {
            return Poll::Ready(Some(news));
        }
        if by == Moment::NEVER {
            return Poll::Pending;
        }
        let patience = self.patience.get_or_insert_with(|| Box::new(Sleep::until(&clock(), by)));
        Pin::new(&mut **patience).poll(cx).map(|()| None)
    }
}

impl<N> Future for Waiting<N> {
    type Output = N;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<N> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut stage = self.waiter.stage.lock();
        if seeded!("a_waiter_registers_too_late") && matches!(&*stage, Stage::Waits(_)) {
            drop(stage);
            stage = self.waiter.stage.lock();
            *stage = Stage::Waits(Some(own));
            return Poll::Pending;
        }
        let before = match std::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Told(news) => return Poll::Ready(news),
            Stage::Waits(before) => before,
            Stage::Gone => None,
        };
        *stage = Stage::Waits(Some(own));
        drop(stage);
        drop(before);
        Poll::Pending
    }
}

impl<N> Drop for Waiting<N> {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut *self.waiter.stage.lock(), Stage::Gone);
        if seeded!("a_told_waiter_keeps_its_hold") {
            return std::mem::forget(stage);
        }
        drop(stage); // without the lock: a hold or a lead goes on to the next one
    }
}
