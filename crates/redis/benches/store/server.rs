//! The server itself, over connections that send each command at once.

use redis::aio::{MultiplexedConnection, SendError};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, InfoDict, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, cmd,
};
use tidelock_bench::{Load, Result};
use tokio::time::Duration;

/// A crowd on one connection may wait for longer than the crate's default of half a second.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Server {
    client: Client,
    /// For commands outside the measurement.
    aside: MultiplexedConnection,
}

impl Server {
    pub(super) async fn at(url: &str) -> Result<Self> {
        // With Nagle's algorithm a command may wait 40 ms for the reply to the previous one.
        let at_once = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(at_once))?;
        let aside = client.get_multiplexed_async_connection_with_config(&config()).await?;
        Ok(Self { client, aside })
    }

    /// Opens one more connection.
    pub(super) async fn connection(&self) -> Result<MultiplexedConnection> {
        Ok(self.client.get_multiplexed_async_connection_with_config(&config()).await?)
    }

    /// Opens one more connection, which calls `told` directly for each message of a channel.
    pub(super) async fn subscriber(
        &self,
        channel: &str,
        told: impl Fn() + Send + Sync + 'static,
    ) -> Result<MultiplexedConnection> {
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let config = config().set_push_sender(move |push: PushInfo| -> Result<(), SendError> {
            if push.kind == PushKind::Message {
                told();
            }
            Ok(())
        });
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        connection.subscribe(channel).await?;
        Ok(connection)
    }

    /// Opens a connection that receives every line of MONITOR.
    pub(super) async fn monitor(&self) -> Result<redis::aio::Monitor> {
        Ok(self.client.get_async_monitor().await?)
    }

    /// Loads a script, and returns its name for EVALSHA.
    pub(super) async fn load_script(&self, text: &str) -> Result<String> {
        Ok(cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut self.aside.clone()).await?)
    }

    pub(super) async fn load(&self) -> Result<Load> {
        let info: InfoDict = cmd("INFO").query_async(&mut self.aside.clone()).await?;
        let figure = |name: &str| info.get::<f64>(name).ok_or_else(|| format!("this server has no `{name}`"));
        Ok(Load {
            memory: figure("used_memory")?,
            done: figure("total_commands_processed")?,
            cpu: figure("used_cpu_user")? + figure("used_cpu_sys")?,
        })
    }

    /// Deletes every key with this prefix.
    pub(super) async fn remove(&self, prefix: &str) -> Result<()> {
        let (mut server, mut cursor) = (self.aside.clone(), 0_u64);
        let pattern = format!("{}*", literally(prefix));
        loop {
            let scan = cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000).take();
            let (next, keys): (u64, Vec<String>) = scan.query_async(&mut server).await?;
            if !keys.is_empty() {
                let _: u64 = cmd("UNLINK").arg(keys).query_async(&mut server).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE))
}

/// Escapes text, so that a pattern takes it literally.
fn literally(text: &str) -> String {
    text.chars().flat_map(|c| r"*?[]\^-".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_matches_nothing_else() {
        assert_eq!(literally("tidelock-bench-7"), r"tidelock\-bench\-7");
        assert_eq!(literally("a*"), r"a\*");
    }
}
