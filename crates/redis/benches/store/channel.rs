//! The bare way to signal: one script that publishes, and the subscriber's receipt of it on another connection.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};
use tidelock_bench::{BareHandOff, Result, Signaller};

use super::server::Server;

const PUBLISH: &str = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";

#[derive(Clone, Debug)]
pub(crate) struct Channel {
    connection: MultiplexedConnection,
    publish: Arc<Cmd>,
    /// The subscriber lives as long as its side.
    _subscriber: MultiplexedConnection,
}

impl Channel {
    /// Two sides, on channels with this prefix.
    pub(super) async fn hand_offs(server: &Server, prefix: &str) -> Result<[BareHandOff<Self>; 2]> {
        let script = server.load_script(PUBLISH).await?;
        let channel = |side: usize| format!("{prefix}{side}");
        BareHandOff::sides(async |own, other, waiters| {
            let publish = cmd("EVALSHA").arg(&script).arg(0).arg(channel(other)).arg("yours").take();
            Ok(Self {
                connection: server.connection().await?,
                publish: publish.into(),
                _subscriber: server.subscriber(&channel(own), move || waiters.wake_first()).await?,
            })
        })
        .await
    }
}

impl Signaller for Channel {
    async fn tell(&self) -> Result<()> {
        let told: u32 = self.publish.query_async(&mut self.connection.clone()).await?;
        (told > 0).then_some(()).ok_or_else(|| "the bare channel has no subscriber".into())
    }
}
