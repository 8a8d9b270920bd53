//! The store: one table of lines behind one lock, and any number of connected clients.
//!
//! A request takes the lock, ends the leases that are due, does its work, releases the lock, and only then sends
//! signals. Nothing sleeps and nothing runs in the background: a dead client's claims leave at the first request
//! after its lease ends. Waiters are told when to look, so they make such a request at just that time.

use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Moment, Reply, Session, Signals, boot_clock};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};

use crate::mishap::{Mishap, Mishaps};
use crate::named;
use crate::session::MemorySession;
use crate::sync::Cell;
use crate::table::Table;
use crate::{Clock, Faults};

/// A store of lines in this process's memory. Clones are the same store.
///
/// Each connected client is like a process of its own: it has its own session, and can die alone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
/// use tidelock_memory::{Options, Store, prelude::*};
///
/// let store = Store::new();
/// let shop = store.connect(Options::new().label("shop")).await?;
/// let depot = store.connect(Options::new().label("depot")).await?;
///
/// let held = shop.mutex("stock:42")?.lock().await?;
/// assert!(depot.mutex("stock:42")?.try_lock().await?.is_none());
/// held.release().await?;
/// assert!(depot.mutex("stock:42")?.try_lock().await?.is_some());
///
/// shop.close().await?;
/// depot.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Store(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    name: String,
    clock: Arc<dyn tidelock_core::backend::Clock>,
    table: Cell<Table>,
    mishaps: Mishaps,
}

impl Store {
    /// An empty store, on the boot clock.
    #[must_use]
    pub fn new() -> Self {
        Self::on(boot_clock())
    }

    /// An empty store on a clock that a test moves by hand. Leases end when that clock says so, and not before.
    #[must_use]
    pub fn with_clock(clock: &Clock) -> Self {
        let store = Self::on(clock.hands());
        clock.drive(Arc::downgrade(&store.0));
        store
    }

    /// The store of this process that the URL names: `memory://NAME`, or `memory://` for the one without a name. The same
    /// URL is the same store for as long as anybody has it; the next one after that is empty.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
    /// use tidelock_memory::{Options, Store, prelude::*};
    ///
    /// let shop = Store::open("memory://shop")?.connect(Options::new()).await?;
    /// let depot = Store::open("memory://shop")?.connect(Options::new()).await?;
    /// let held = shop.mutex("stock:42")?.lock().await?;
    /// assert!(depot.mutex("stock:42")?.try_lock().await?.is_none());
    /// # drop(held); shop.close().await?; depot.close().await }
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](tidelock_core::ErrorKind::InvalidOption) if that is not such a URL.
    pub fn open(url: &str) -> Result<Self> {
        named::open(url)
    }

    /// Connects another client to this store, and opens its session now.
    ///
    /// # Errors
    /// [`InvalidOption`](tidelock_core::ErrorKind::InvalidOption) names the option that is out of its range.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::connect(Arc::new(self.clone()), options).await
    }

    /// Connects another client to this store. Its session is opened at first use.
    ///
    /// # Errors
    /// [`InvalidOption`](tidelock_core::ErrorKind::InvalidOption) names the option that is out of its range.
    pub fn attach(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::attach(Arc::new(self.clone()), options)
    }

    /// The faults that a test can cause in this store.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(self.clone())
    }

    /// The same store, while anybody else has it.
    pub(crate) fn again(shared: &Weak<Shared>) -> Option<Self> {
        shared.upgrade().map(Self)
    }

    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    fn on(clock: Arc<dyn tidelock_core::backend::Clock>) -> Self {
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

    /// Runs `work` on the table, then sends the signals that follow from it.
    pub(crate) fn act<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        let now = self.now();
        let mut table = self.0.table.lock();
        table.expire(now);
        let outcome = work(&mut table);
        let news = table.take_news();
        drop(table); // the receiver of a signal may call the store at once
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
            // Boxed, so that a request without a mishap is a small future.
            Some(mishap) => Box::pin(self.request_with(mishap, work)).await,
        }
    }

    async fn request_with<T>(&self, mishap: Mishap, work: impl FnOnce(&mut Table) -> Result<T>) -> Result<T> {
        let mut journey = mishap.send(&self.0.clock);
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
        let Some(mishap) = self.0.mishaps.next() else {
            return Box::pin(ready(self.act(work)));
        };
        let mut journey = mishap.send(&self.0.clock);
        if let Err(refused) = journey.arrive() {
            return Box::pin(ready(Err(refused)));
        }
        let reply = self.act(work);
        Box::pin(async move {
            journey.back().await?;
            reply
        })
    }
}

impl Shared {
    /// When the first session will end after `moment`, unless it is renewed.
    pub(crate) fn first_lease_end_after(&self, moment: Moment) -> Option<Moment> {
        self.table.lock().first_end_after(moment)
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for Store {
    fn clock(&self) -> Arc<dyn tidelock_core::backend::Clock> {
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
        if options.replicas.is_some() {
            let wrong = "a store in memory has no replicas; connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        self.request(|table| table.open(id, options, signals)).await?;
        Ok(Arc::new(MemorySession { store: self.clone(), id, ttl: options.ttl }))
    }
}
