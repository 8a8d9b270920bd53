//! A number in one key.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tidelock_bench::{Result, Stock};

use super::server::Server;

/// DECR alone would go below zero.
const TAKE_ONE: &str = "\
if tonumber(redis.call('GET', KEYS[1])) > 0 then redis.call('DECR', KEYS[1]) return 1 end
return 0";

#[derive(Clone, Debug)]
pub(crate) struct Number {
    connection: MultiplexedConnection,
    key: Arc<str>,
    take_one: Arc<str>,
}

impl Number {
    pub(super) async fn new(server: &Server, key: String, number: u32) -> Result<Self> {
        let connection = server.connection().await?;
        let take_one = server.load_script(TAKE_ONE).await?;
        let fresh = Self { connection, key: key.into(), take_one: take_one.into() };
        fresh.write(number).await?;
        Ok(fresh)
    }
}

impl Stock for Number {
    async fn read(&self) -> Result<u32> {
        Ok(cmd("GET").arg(&*self.key).query_async(&mut self.connection.clone()).await?)
    }

    async fn write(&self, number: u32) -> Result<()> {
        Ok(cmd("SET").arg(&*self.key).arg(number).query_async(&mut self.connection.clone()).await?)
    }

    async fn take_one(&self) -> Result<bool> {
        let take = cmd("EVALSHA").arg(&*self.take_one).arg(1).arg(&*self.key).take();
        Ok(take.query_async(&mut self.connection.clone()).await?)
    }
}
