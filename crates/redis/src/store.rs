//! A Redis, and how sessions of it are opened.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Client, ConnectionInfo, RedisError};
use tidelock::{
    Backend, Clock, Error, ErrorKind, Locks, Options, Result, Session, SessionId, Signals, boot_clock,
};

use crate::address::{self, Address};
use crate::check;
use crate::dial::Dial;
use crate::keys::Keys;
use crate::link::{Link, Patience};
use crate::news::News;
use crate::sentinels::Sentinels;
use crate::session::{Leaving, RedisSession};

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
    /// The server at `url`; nothing is connected yet.
    ///
    /// | | |
    /// |---|---|
    /// | one server | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` |
    /// | with TLS (feature `tls`) | `rediss://…` |
    /// | by a socket | `redis+unix:///PATH[?db=DATABASE][&user=USER][&pass=PASSWORD]` |
    /// | sentinels | `redis-sentinel://[USER[:PASSWORD]@]HOST:PORT,HOST:PORT[/DATABASE]#MASTER` |
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when that is no such URL.
    pub fn open(url: &str) -> Result<Self> {
        match Address::parse(url)? {
            Address::One(info) => Self::of(info),
            Address::Sentinels { sentinels, master, server } => {
                let name = format!("redis sentinel {master}/{}", server.redis_settings().db()).into();
                let sentinels = Sentinels::new(sentinels, master, server).map_err(unusable)?;
                Ok(Self { dial: Arc::new(sentinels), name })
            }
        }
    }

    /// The server that this client of the `redis` crate leads to: with its TLS configuration, for instance. It is
    /// connected to with RESP3 and TCP_NODELAY.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it cannot be connected to so.
    pub fn from_client(client: &Client) -> Result<Self> {
        Self::of(address::tuned(client.get_connection_info().clone()))
    }

    /// Locks of this store, their session opened now.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and whatever is wrong with the server.
    pub async fn connect(self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock::connect(Arc::new(self), options).await
    }

    fn of(info: ConnectionInfo) -> Result<Self> {
        let name = format!("redis {}/{}", info.addr(), info.redis_settings().db()).into();
        Ok(Self { dial: Arc::new(Client::open(info).map_err(unusable)?), name })
    }
}

fn unusable(error: RedisError) -> Error {
    Error::new(ErrorKind::InvalidOption, "such a server cannot be connected to").because(error)
}

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
