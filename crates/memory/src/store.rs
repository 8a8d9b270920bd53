//! The store: one table of lines behind one lock, and as many clients as are connected to it.
//!
//! A request takes the lock, ends the leases that are due, does its work, lets go of the lock, and only then tells
//! whoever is to hear of it. Nothing sleeps and nothing runs by itself: a dead client's claims leave at the first
//! request after its time, which those who wait for them are asked to make just then.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidelock::{Backend, Moment, Options, Reply, Result, Session, SessionId, Signals, boot_clock};

use crate::mishap::{Mishap, Mishaps};
use crate::session::MemorySession;
use crate::sync::Cell;
use crate::table::Table;
use crate::{Clock, Faults};

/// A store of lines in this process's memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    clock: Arc<dyn tidelock::Clock>,
    table: Cell<Table>,
    mishaps: Mishaps,
}

impl Store {
    /// An empty store, on the boot clock.
    #[must_use]
    pub fn new() -> Self {
        Self::on(boot_clock())
    }

    /// An empty store on a clock that a test turns by hand.
    #[must_use]
    pub fn with_clock(clock: &Clock) -> Self {
        Self::on(clock.shared())
    }

    /// What a test can make go wrong here.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(self.clone())
    }

    fn on(clock: Arc<dyn tidelock::Clock>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        Self(Arc::new(Shared {
            name: format!("memory {}", COUNT.fetch_add(1, Ordering::Relaxed)),
            clock,
            table: Cell::new(Table::new()),
            mishaps: Mishaps::default(),
        }))
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.clock.now()
    }

    pub(crate) fn mishaps(&self) -> &Mishaps {
        &self.0.mishaps
    }

    /// Does something to the table, and tells whoever is to hear of it.
    pub(crate) fn act<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        let now = self.now();
        let mut table = self.0.table.lock();
        table.expire(now);
        let outcome = work(&mut table);
        let news = table.take_news();
        drop(table); // whoever hears it may call the store at once
        if !news.is_empty() && self.0.mishaps.let_signals_pass() {
            news.tell();
        }
        outcome
    }

    /// One request and its reply.
    pub(crate) async fn request<T: Send>(
        &self,
        work: impl FnOnce(&mut Table) -> Result<T> + Send,
    ) -> Result<T> {
        match self.0.mishaps.next() {
            None => self.act(work),
            // Boxed, so that a request with which nothing goes wrong is a small future.
            Some(mishap) => Box::pin(self.request_with(mishap, work)).await,
        }
    }

    async fn request_with<T>(&self, mishap: Mishap, work: impl FnOnce(&mut Table) -> Result<T>) -> Result<T> {
        mishap.on_the_way_there(&self.0.clock).await?;
        let reply = self.act(work);
        mishap.on_the_way_back(&self.0.clock).await?;
        reply
    }

    /// One request that arrives at once, whatever becomes of its reply.
    pub(crate) fn request_now<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Table) -> Result<T>,
    ) -> Reply<T> {
        let Some(mishap) = self.0.mishaps.next() else {
            return Box::pin(ready(self.act(work)));
        };
        if let Err(refused) = mishap.refuse() {
            return Box::pin(ready(Err(refused)));
        }
        let reply = self.act(work);
        let clock = self.0.clock.clone();
        Box::pin(async move {
            mishap.on_the_way_back(&clock).await?;
            reply
        })
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for Store {
    fn clock(&self) -> Arc<dyn tidelock::Clock> {
        self.0.clock.clone()
    }

    fn store(&self) -> &str {
        &self.0.name
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.request(|table| table.open(id, options, signals)).await?;
        Ok(Arc::new(MemorySession {
            store: self.clone(),
            id,
            ttl: options.ttl,
        }))
    }
}
