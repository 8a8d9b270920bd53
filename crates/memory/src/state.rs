//! The state of a store: one table of lines behind one lock, and the way of a request there and back.
//!
//! A request takes the lock, ends the leases that are due, does its work, releases the lock, and only then sends
//! signals. Nothing sleeps and nothing runs in the background: a dead client's claims leave at the first request
//! after its lease ends. Waiters are told when to look, so they make such a request at just that time.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock_core::Result;
use tidelock_core::backend::{Clock, Moment, Reply};

use crate::mishap::{Mishap, Mishaps};
use crate::sync::Cell;
use crate::table::Table;

#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
    table: Cell<Table>,
    pub(crate) mishaps: Mishaps,
}

impl StoreState {
    /// An empty store on that clock.
    pub(crate) fn on(clock: Arc<dyn Clock>) -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            name: format!("memory {}", COUNT.fetch_add(1, Ordering::Relaxed)),
            clock,
            table: Cell::new(Table::new()),
            mishaps: Mishaps::default(),
        })
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Runs `work` on the table, then sends the signals that follow from it.
    pub(crate) fn act<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        let now = self.now();
        let mut table = self.table.lock();
        table.expire(now);
        let outcome = work(&mut table);
        let signals = table.take_signals();
        drop(table); // the receiver of a signal may call the store at once
        if !signals.is_empty() && self.mishaps.let_signals_pass() {
            signals.tell();
        }
        outcome
    }

    /// One request and its reply.
    pub(crate) async fn request<T: Send>(
        &self,
        work: impl FnOnce(&mut Table) -> Result<T> + Send,
    ) -> Result<T> {
        match self.mishaps.next() {
            None => self.act(work),
            // Boxed, so that a request without a mishap is a small future.
            Some(mishap) => Box::pin(self.request_with(mishap, work)).await,
        }
    }

    async fn request_with<T>(&self, mishap: Mishap, work: impl FnOnce(&mut Table) -> Result<T>) -> Result<T> {
        let mut journey = mishap.send(&self.clock);
        journey.there().await?;
        let reply = self.act(work);
        journey.back().await?;
        reply
    }

    /// One request that arrives at once, whatever happens to its reply.
    pub(crate) fn request_now<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Table) -> Result<T>,
    ) -> Reply<T> {
        let Some(mishap) = self.mishaps.next() else {
            return Box::pin(ready(self.act(work)));
        };
        let mut journey = mishap.send(&self.clock);
        if let Err(refused) = journey.arrive() {
            return Box::pin(ready(Err(refused)));
        }
        let reply = self.act(work);
        Box::pin(async move {
            journey.back().await?;
            reply
        })
    }

    /// When the first session will end after `moment`, unless it is renewed.
    pub(crate) fn first_lease_end_after(&self, moment: Moment) -> Option<Moment> {
        self.table.lock().first_end_after(moment)
    }
}
