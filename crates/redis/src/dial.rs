//! How a connection to the server is made, the first time and whenever one is needed again.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, RedisResult};
use tokio::sync::mpsc::UnboundedSender;

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

/// Connects to ask something once.
pub(crate) async fn briefly(client: &Client, within: Duration) -> RedisResult<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(within)).set_response_timeout(Some(within));
    client.get_multiplexed_async_connection_with_config(&config).await
}

#[async_trait]
impl Dial for Client {
    async fn dial(
        &self,
        within: Duration,
        pushes: UnboundedSender<PushInfo>,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None) // each batch has a deadline of its own
            .set_pipeline_buffer_size(ROOM)
            .set_push_sender(pushes);
        self.get_multiplexed_async_connection_with_config(&config).await
    }

    fn place(&self) -> String {
        format!("Redis at {}", self.get_connection_info().addr())
    }
}
