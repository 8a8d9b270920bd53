//! A Redis, and how sessions of it are opened.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use tidelock::{
    Backend, Clock, Error, ErrorKind, Locks, Options, Result, Session, SessionId, Signals, boot_clock,
};

use crate::dial::Dial;
use crate::keys::Keys;
use crate::link::{Link, Patience};
use crate::news::News;
use crate::session::{Leaving, RedisSession};
use crate::check;

/// A Redis to keep lines in. Cloning it is cheap; each client that connects has connections of its own.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
/// use std::time::Duration;
/// use tidelock_redis::{Options, Store};
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let locks = store.connect(Options::new().ttl(Duration::from_secs(30))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    dial: Arc<dyn Dial>,
    name: Arc<str>,
}

impl Store {
    /// The server at `url`; nothing is connected yet. `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, `rediss://`
    /// with TLS (feature `tls`), or `redis+unix:///PATH[?db=DATABASE][&user=USER][&pass=PASSWORD]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when that is no such URL.
    pub fn open(url: &str) -> Result<Self> {
        // What the library says of a bad URL may quote it, password and all.
        let wrong = || Error::new(ErrorKind::InvalidOption, NO_URL);
        let info = url.into_connection_info().map_err(|_| wrong())?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        Self::of(info.set_tcp_settings(tcp))
    }

    /// The server that this client of the `redis` crate leads to: with its TLS configuration, for instance. It should
    /// have TCP_NODELAY set.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it cannot be used with RESP3.
    pub fn from_client(client: &Client) -> Result<Self> {
        Self::of(client.get_connection_info().clone())
    }

    /// Locks of this store, their session opened now.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and whatever is wrong with the server.
    pub async fn connect(self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock::connect(Arc::new(self), options).await
    }

    fn of(info: ConnectionInfo) -> Result<Self> {
        // Only so a connection that waits for commands' replies hears of grants as well.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let name = format!("redis {}/{}", info.addr(), settings.db()).into();
        let wrong = |error| {
            Error::new(ErrorKind::InvalidOption, "such a server cannot be connected to").because(error)
        };
        let client = Client::open(info.set_redis_settings(settings)).map_err(wrong)?;
        Ok(Self { dial: Arc::new(client), name })
    }
}

const NO_URL: &str =
    "that is no URL of a Redis; they look like redis://USER:PASSWORD@HOST:PORT/DATABASE";

#[async_trait]
impl Backend for Store {
    fn clock(&self) -> Arc<dyn Clock> {
        boot_clock()
    }

    fn store(&self) -> &str {
        &self.name
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let (keys, news) = (Keys::of(&options.namespace), Arc::new(News { session: id, signals }));
        let patience = Patience::of(options);
        let channel = Some(keys.channel(id));
        let commands = Link::connect(self.dial.clone(), news.clone(), channel, patience).await?;
        check::server(&commands, &keys, id).await?;
        let renewals = Link::lazy(self.dial.clone(), news, patience);
        Ok(Arc::new(RedisSession {
            id,
            ttl: options.ttl,
            label: options.label.clone(),
            keys,
            clock: boot_clock(),
            commands,
            renewals,
            leaving: Leaving::default(),
        }))
    }
}
