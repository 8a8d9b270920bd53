//! Makes connections to the server, the first time and whenever a new one is needed.
//!
//! A connection may be made on a caller's runtime, which may have no timer. So all timeouts here use the boot clock.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, PushInfo, RedisError,
    RedisResult,
};
use tidelock_core::backend::{Credentials, Sleep, boot_clock};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::address;
use crate::connector::{Connector, Stream};
use crate::tenure::Tenure;

/// How many requests fit between a link and the library's driver: more than a link ever sends at once, so handing them
/// over never waits.
const ROOM: usize = 4_096;

/// Makes connections to one server, which may be another one after a failover.
#[async_trait]
pub(crate) trait Dial: Debug + Send + Sync {
    /// Connects. Waits for a silent server only while it is the one to connect to; sentinels or cluster nodes are asked
    /// about that meanwhile.
    async fn dial(&self, within: Duration) -> RedisResult<Dialed>;

    /// Asks sentinels, if there are any, whether another server is the one to connect to now. Connections hear of it by
    /// their tenure.
    fn look_around(&self, _within: Duration) {}

    /// Where the server is, for messages: `Redis at 127.0.0.1:6379`.
    fn place(&self) -> String;
}

/// A connection, with the messages that the server pushes on it.
pub(crate) struct Dialed {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) pushes: UnboundedReceiver<PushInfo>,
    pub(crate) tenure: Tenure,
}

/// How the program wants to connect, beyond the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) connector: Option<Connector>,
}

/// One server, and how to connect to it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    info: ConnectionInfo,
    manner: Manner,
}

impl Target {
    pub(crate) fn new(info: ConnectionInfo, manner: Manner) -> Self {
        Self { info, manner }
    }

    /// The server at another address, with the same settings.
    pub(crate) fn at(&self, host: String, port: u16) -> Self {
        Self { info: address::at(&self.info, host, port), manner: self.manner.clone() }
    }

    pub(crate) fn addr(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    /// A plain byte stream to whatever listens there. Not for TLS and Unix sockets, where no wrong server is expected.
    pub(crate) async fn bytes(&self) -> io::Result<Box<dyn Stream>> {
        match (&self.manner.connector, self.info.addr()) {
            (Some(connector), ConnectionAddr::Tcp(host, port)) => connector.connect(host, *port).await,
            (None, ConnectionAddr::Tcp(host, port)) => {
                Ok(Box::new(TcpStream::connect((host.as_str(), *port)).await?))
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Connects for a single question. The reply has no deadline of its own.
    pub(crate) async fn briefly(&self, within: Duration) -> RedisResult<MultiplexedConnection> {
        self.connect(within, AsyncConnectionConfig::new()).await
    }

    async fn connect(
        &self,
        within: Duration,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        // The library's own timeouts need the runtime's timer.
        let config = config.set_connection_timeout(None).set_response_timeout(None);
        let connecting = async {
            let info = self.logged_in().await?;
            match (&self.manner.connector, info.addr()) {
                (Some(connector), ConnectionAddr::Tcp(host, port)) => {
                    let stream = connector.connect(host, *port).await?;
                    let settings = info.redis_settings();
                    let (connection, driver) =
                        MultiplexedConnection::new_with_config(settings, stream, config).await?;
                    tokio::spawn(driver); // ends with the connection
                    Ok(connection)
                }
                _ => Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await,
            }
        };
        self::within(within, connecting).await
    }

    /// The connection settings with the current user and password.
    async fn logged_in(&self) -> RedisResult<ConnectionInfo> {
        let Some(credentials) = &self.manner.credentials else { return Ok(self.info.clone()) };
        let unknown =
            |error| RedisError::from((ErrorKind::Client, "cannot get the credentials", format!("{error}")));
        let (user, password) = credentials.ask().await.map_err(unknown)?.into_parts();
        let mut settings = self.info.redis_settings().clone().set_password(password);
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        Ok(self.info.clone().set_redis_settings(settings))
    }
}

#[async_trait]
impl Dial for Target {
    async fn dial(&self, within: Duration) -> RedisResult<Dialed> {
        let (sender, pushes) = unbounded_channel();
        let config = AsyncConnectionConfig::new().set_pipeline_buffer_size(ROOM).set_push_sender(sender);
        let connection = self.connect(within, config).await?;
        Ok(Dialed { connection, pushes, tenure: Tenure::endless() })
    }

    fn place(&self) -> String {
        format!("Redis at {}", self.addr())
    }
}

/// How long a dial may take that may take so long.
pub(crate) fn patience(longest: Duration) -> Duration {
    if seeded!("a_stalled_server_holds_a_dial") { Duration::from_secs(3_600) } else { longest }
}

/// Runs `work` with a timeout, on any runtime.
pub(crate) async fn within<T>(
    longest: Duration,
    work: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    tokio::select! {
        biased;
        done = work => done,
        () = pause(patience(longest)) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// Tries the server on another connection. `Some(Some(…))` if it serves there; `Some(None)` if its port is closed.
///
/// `None` proves nothing about the existing connection: there was no answer, or a refusal. The server may accept no
/// more clients, or its password may have changed, while it still serves the existing connection slowly.
pub(crate) async fn elsewhere<T>(
    longest: Duration,
    dialing: impl Future<Output = RedisResult<T>>,
) -> Option<Option<T>> {
    match within(longest, dialing).await {
        Ok(served) => Some(Some(served)),
        Err(error) => error.is_connection_refusal().then_some(None),
    }
}

/// Sleeps, on any runtime.
pub(crate) async fn pause(longest: Duration) {
    let clock = boot_clock();
    Sleep::until(&clock, clock.now() + longest).await;
}
