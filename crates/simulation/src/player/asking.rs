//! An acquire under way: its end is recorded before the lock hears of it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidelock_core::{Locks, Name, Result, simulation};
use tidelock_history::EventKind;

use crate::record::{Record, on_behalf_of};

/// An acquire. What it sends is sent on behalf of its claim. Its fields are dropped in this order: the end of the wait is
/// recorded before the lock hears of it.
pub(super) struct Asking<F> {
    pub(super) asked: Asked,
    pub(super) work: Pin<Box<F>>,
}

impl<T, F: Future<Output = Result<Option<T>>>> Future for Asking<F> {
    type Output = Result<Option<T>>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let claims = self.asked.claims.clone();
        drop(simulation::arrivals()); // those of others
        let polled = on_behalf_of(&claims, || self.work.as_mut().poll(cx));
        simulation::arrivals().iter().for_each(|name| self.asked.comes(name));
        let outcome = std::task::ready!(polled);
        self.asked.settle(&outcome);
        Poll::Ready(outcome)
    }
}

pub(super) struct Asked {
    pub(super) claims: Arc<[u64]>,
    pub(super) record: Arc<Record>,
    /// Whose local lines it stands in, and whether it is polled whenever it is woken.
    pub(super) of: usize,
    pub(super) is_polled: bool,
    /// Whether it is one acquire.
    pub(super) is_plain: bool,
    pub(super) is_settled: Cell<bool>,
}

impl Asked {
    pub(super) fn new(claims: &Arc<[u64]>, record: &Arc<Record>, locks: &Arc<dyn Locks>) -> Self {
        let (claims, record, of) = (claims.clone(), record.clone(), Arc::as_ptr(locks).addr());
        Self { claims, record, of, is_polled: true, is_plain: false, is_settled: Cell::new(false) }
    }

    /// It has come to a local line, where its place is behind all that came before.
    fn comes(&self, name: &Name) {
        self.record.comes(&self.claims, name.as_str(), (self.of, self.is_polled, self.is_plain));
    }

    fn settle<T>(&self, outcome: &Result<Option<T>>) {
        self.is_settled.set(true);
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) => self.end(&EventKind::Refused),
            Err(_) => self.end(&EventKind::Failed),
        }
    }

    fn end(&self, what: &EventKind) {
        self.claims.iter().for_each(|claim| self.record.not_granted(*claim, what.clone()));
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_settled.get() {
            self.end(&EventKind::Cancelled);
        }
    }
}

/// An acquire that may hold a name without showing it.
pub(super) struct Busy {
    pub(super) record: Arc<Record>,
    pub(super) name: String,
}

impl Busy {
    pub(super) fn new(record: &Arc<Record>, name: &str) -> Self {
        record.busy(name, true);
        Self { record: record.clone(), name: name.to_owned() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.record.busy(&self.name, false);
    }
}
