//! A Redis, and how sessions of it are opened.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Client, ConnectionInfo, RedisError};
use tidelock::{
    Backend, Clock, Error, ErrorKind, Locks, Options, Result, Session, SessionId, Signals, boot_clock,
};
use tokio::runtime::Handle;

use crate::address::{self, Address};
use crate::check;
#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::dial::Dial;
use crate::fleet::{Alone, Fleet};
use crate::keys::Keys;
use crate::link::{Patience, Reach};
use crate::news::News;
use crate::replicas::{Gate, ReplicatedSession};
use crate::sentinels::Sentinels;
use crate::server::Server;
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
    site: Site,
    name: Arc<str>,
}

/// Where lines are kept.
#[derive(Clone, Debug)]
enum Site {
    /// On one server, whichever it is at the moment.
    One(Arc<dyn Dial>),
    /// On the masters of a cluster that has these nodes.
    #[cfg(feature = "cluster")]
    Cluster(Vec<ConnectionInfo>),
}

impl Store {
    /// The server at `url`; nothing is connected yet.
    ///
    /// | | |
    /// |---|---|
    /// | one server | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` |
    /// | with TLS (feature `tls`) | `rediss://…` |
    /// | by a socket | `redis+unix:///PATH[?db=DATABASE][&user=USER][&pass=PASSWORD]` |
    /// | a cluster (feature `cluster`), some of its nodes | `redis-cluster://[USER[:PASSWORD]@]HOST:PORT,HOST:PORT` |
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
                Ok(Self { site: Site::One(Arc::new(sentinels)), name })
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => {
                let mut addresses: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
                addresses.sort_unstable();
                Ok(Self {
                    name: format!("redis cluster {}", addresses.join(",")).into(),
                    site: Site::Cluster(nodes),
                })
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
        Ok(Self { site: Site::One(Arc::new(Client::open(info).map_err(unusable)?)), name })
    }
}

impl Site {
    async fn reach(&self, reach: Reach) -> Result<Arc<dyn Fleet>> {
        match self {
            Self::One(dial) => {
                let server = Server::connect(dial.clone(), reach).await?;
                check::server(&server.commands).await?;
                Ok(Arc::new(Alone(Arc::new(server))))
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(nodes) => Ok(Arc::new(Cluster::open(nodes.clone(), reach).await?)),
        }
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
        let keys = Keys::of(&options.namespace);
        let gate = options.replicas.map(|replicas| (replicas, Gate::new(id, signals.clone())));
        let signals = gate.as_ref().map_or(signals, |(_, (gate, _))| gate.clone() as Arc<dyn Signals>);
        let reach = Reach {
            news: Arc::new(News { session: id, signals }),
            channel: Some(keys.channel(id)),
            patience: Patience::of(options),
            runtime: Handle::current(),
        };
        let fleet = self.site.reach(reach).await?;
        check::permissions(&*fleet, &keys, id).await?;
        let session = RedisSession {
            id,
            ttl: options.ttl,
            renew_within: options.command_deadline.min(options.ttl / 3) / 2,
            label: options.label.clone(),
            keys,
            clock: boot_clock(),
            fleet,
            leaving: Leaving::default(),
        };
        let Some((replicas, (gate, to_ask))) = gate else {
            return Ok(Arc::new(session));
        };
        check::replicas(&*session.fleet, id, replicas.count).await?;
        Ok(Arc::new(ReplicatedSession::start(session, gate, to_ask, replicas, options)))
    }
}
