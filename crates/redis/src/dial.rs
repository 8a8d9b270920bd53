//! How a connection to the server is made, the first time and whenever one is needed again.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, PushInfo, RedisError,
    RedisResult,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::address;
use crate::connector::Connector;
use crate::login::Credentials;

/// How many requests may lie between a link and the library's driver: more than a link ever sends at once, so that
/// handing them over does not wait.
const ROOM: usize = 4_096;

/// Makes connections to one server, whichever that is at the moment.
#[async_trait]
pub(crate) trait Dial: Debug + Send + Sync {
    /// Connects. What the server tells without being asked goes into `pushes`.
    async fn dial(
        &self,
        within: Duration,
        pushes: UnboundedSender<PushInfo>,
    ) -> RedisResult<MultiplexedConnection>;

    /// Where that is, for messages: `Redis at 127.0.0.1:6379`.
    fn place(&self) -> String;
}

/// What a user has said of connecting, beyond the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) connector: Option<Connector>,
}

/// One server, and how it is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    info: ConnectionInfo,
    manner: Manner,
}

impl Target {
    pub(crate) fn new(info: ConnectionInfo, manner: Manner) -> Self {
        Self { info, manner }
    }

    /// The server at another address, connected to in the same way.
    pub(crate) fn at(&self, host: String, port: u16) -> Self {
        Self { info: address::at(&self.info, host, port), manner: self.manner.clone() }
    }

    pub(crate) fn addr(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    /// Connects to ask something once.
    pub(crate) async fn briefly(&self, within: Duration) -> RedisResult<MultiplexedConnection> {
        self.connect(within, AsyncConnectionConfig::new().set_response_timeout(Some(within))).await
    }

    async fn connect(
        &self,
        within: Duration,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let config = config.set_connection_timeout(Some(within));
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
        let late = || Err(io::Error::from(io::ErrorKind::TimedOut).into());
        tokio::time::timeout(within, connecting).await.unwrap_or_else(|_| late())
    }

    /// With the user and the password of now.
    async fn logged_in(&self) -> RedisResult<ConnectionInfo> {
        let Some(credentials) = &self.manner.credentials else { return Ok(self.info.clone()) };
        let unknown = |error| {
            RedisError::from((ErrorKind::Client, "its credentials are not known", format!("{error}")))
        };
        let login = credentials.ask().await.map_err(unknown)?;
        let mut settings = self.info.redis_settings().clone().set_password(login.password);
        if let Some(user) = login.user {
            settings = settings.set_username(user);
        }
        Ok(self.info.clone().set_redis_settings(settings))
    }
}

#[async_trait]
impl Dial for Target {
    async fn dial(
        &self,
        within: Duration,
        pushes: UnboundedSender<PushInfo>,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None) // each batch has a deadline of its own
            .set_pipeline_buffer_size(ROOM)
            .set_push_sender(pushes);
        self.connect(within, config).await
    }

    fn place(&self) -> String {
        format!("Redis at {}", self.addr())
    }
}
