//! From a URL to locks.

use std::sync::Arc;

use tidelock_core::{Error, Locks, Options, Result};

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
#[cfg_attr(not(any(feature = "memory", feature = "redis", feature = "zookeeper")), allow(unused_variables))]
pub async fn connect_with(url: &str, options: Options) -> Result<Arc<dyn Locks>> {
    let connected = match Store::of(url) {
        #[cfg(feature = "memory")]
        Ok(Store::Memory) => tidelock_memory::Store::open(url)?.connect(options).await,
        #[cfg(feature = "redis")]
        Ok(Store::Redis) => tidelock_redis::Store::open(url)?.connect(options).await,
        #[cfg(feature = "zookeeper")]
        Ok(Store::ZooKeeper) => tidelock_zookeeper::Store::open(url)?.connect(options).await,
        #[allow(unreachable_patterns)] // with every backend built in there is no other
        Ok(_) => unreachable!("a scheme whose feature is off is an error"),
        Err(error) => Err(error),
    };
    connected.map_err(|error: Error| error.during("connect"))
}
