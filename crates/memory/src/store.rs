//! The store that users have: one state, and any number of connected clients.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Session, Signals, boot_clock};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};

use crate::session::MemorySession;
use crate::state::StoreState;
use crate::{Clock, Faults, named};

/// A store of lines in this process's memory. Clones are the same store.
///
/// Each connected client is like a process of its own: it has its own session, and can die alone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
/// use tidelock_memory::{Options, Store};
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
pub struct Store(Arc<StoreState>);

impl Store {
    /// An empty store, on the boot clock.
    #[must_use]
    pub fn new() -> Self {
        Self(StoreState::on(boot_clock()))
    }

    /// An empty store on a clock that a test moves by hand. Leases end when that clock says so, and not before.
    #[must_use]
    pub fn with_clock(clock: &Clock) -> Self {
        let store = Self(StoreState::on(clock.hands()));
        clock.drive(Arc::downgrade(&store.0));
        store
    }

    /// The store of this process that the URL names: `memory://NAME`, or `memory://` for the one without a name. The same
    /// URL is the same store for as long as anybody has it; the next one after that is empty.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_memory::Result<()> {
    /// use tidelock_memory::{Options, Store};
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
        named::open(url).map(Self)
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
        Faults::new(self.0.clone())
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

    fn check(&self, options: &Options) -> Result<()> {
        if options.replicas.is_some() {
            let wrong = "a store in memory has no replicas; connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        Ok(())
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.0.request(|table| table.open(id, options, signals)).await?;
        Ok(Arc::new(MemorySession { store: self.0.clone(), id, ttl: options.ttl }))
    }
}
