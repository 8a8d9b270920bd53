//! From a URL to locks.

use std::sync::Arc;

use tidelock_core::backend::Backend;
use tidelock_core::{Locks, Options, Result};

use crate::scheme::Store;

/// Locks in the store at `url`, with the default options. Share them in their `Arc`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// let url = std::env::var("LOCKS_URL").unwrap_or("memory://".into());
/// let locks = tidelock::connect(&url).await?;
/// locks.ping().await?;
/// locks.close().await
/// # }
/// ```
///
/// # Errors
/// As of [`connect_with`].
pub async fn connect(url: &str) -> Result<Arc<dyn Locks>> {
    connect_with(url, Options::new()).await
}

/// Locks in the store at `url`. The store is asked now, so a server that cannot serve is told here.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use std::time::Duration;
/// use tidelock::Options;
///
/// let options = Options::new().ttl(Duration::from_secs(30)).label("checkout");
/// let locks = tidelock::connect_with("memory://shop", options).await?;
/// locks.close().await
/// # }
/// ```
///
/// # Errors
/// [`InvalidOption`](crate::ErrorKind::InvalidOption) for a URL that is wrong or whose scheme is unknown, and for an
/// option out of its range; [`Unsupported`](crate::ErrorKind::Unsupported) for a scheme whose feature this program was
/// built without: the error has the line for Cargo.toml. Otherwise whatever is wrong with the server.
///
/// # Cancel safety
/// Dropping the future leaves no session and no connection.
pub async fn connect_with(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
    let connected = match backend(url) {
        Ok(backend) => tidelock_core::backend::connect(backend, options).await,
        Err(error) => Err(error),
    };
    connected.map_err(|error| error.during("connect"))
}

/// Locks in the store at `url`, whose session is opened at first use: a program can start while the store is down.
/// Nothing is sent now. An acquire tries to open the session for as long as one command may take
/// ([`Options::command_deadline`]); after that it fails, and the next one tries again.
///
/// ```
/// # fn main() -> tidelock::Result<()> {
/// use tidelock::Options;
///
/// let locks = tidelock::attach_with("memory://shop", Options::new().label("checkout"))?;
/// let mutex = locks.mutex("stock:42")?; // lock it when the store is there
/// # drop(mutex); Ok(()) }
/// ```
///
/// # Errors
/// [`InvalidOption`](crate::ErrorKind::InvalidOption) and [`Unsupported`](crate::ErrorKind::Unsupported) as of
/// [`connect_with`]. What is wrong with the server is told by the first request.
pub fn attach_with(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
    let attached = backend(url).and_then(|backend| tidelock_core::backend::attach(backend, options));
    attached.map_err(|error| error.during("connect"))
}

/// The backend that the URL names.
fn backend(url: &str) -> Result<Arc<dyn Backend>> {
    match Store::of(url)? {
        #[cfg(feature = "memory")]
        Store::Memory => Ok(Arc::new(tidelock_memory::Store::open(url)?)),
        #[cfg(feature = "mysql")]
        Store::MySql => Ok(Arc::new(tidelock_mysql::Store::open(url)?)),
        #[cfg(feature = "redis")]
        Store::Redis => Ok(Arc::new(tidelock_redis::Store::open(url)?)),
        #[cfg(feature = "zookeeper")]
        Store::ZooKeeper => Ok(Arc::new(tidelock_zookeeper::Store::open(url)?)),
        #[cfg(feature = "etcd")]
        Store::Etcd => Ok(Arc::new(tidelock_etcd::Store::open(url)?)),
        #[allow(unreachable_patterns)] // with every backend built in there is no other
        _ => unreachable!("a scheme whose feature is off is an error"),
    }
}
