//! The twins: a key that is made and deleted, a key that is written and watched, and a number in a key.

use std::sync::Arc;

use tidelock_bench::{BareHandOff, Exclusion, Result, Signaller, Stock};
use tidelock_etcd::etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use super::server::Server;

/// One take and one give-back: two requests over a connection that others may share.
#[derive(Clone)]
pub(crate) struct Pair {
    client: Client,
    key: Arc<str>,
}

impl Pair {
    pub(super) fn new(client: &Client, key: String) -> Self {
        Self { client: client.clone(), key: key.into() }
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({})", self.key)
    }
}

impl Exclusion for Pair {
    type Held = ();

    async fn take(&self) -> Result<()> {
        let is_free = Compare::create_revision(&*self.key, CompareOp::Equal, 0);
        let make = Txn::new().when([is_free]).and_then([TxnOp::put(&*self.key, "", None)]);
        let made = self.client.kv_client().txn(make).await?;
        if made.succeeded() { Ok(()) } else { Err(format!("{} is there already", self.key).into()) }
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        self.client.kv_client().delete(&*self.key, None).await?;
        Ok(())
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // nobody waits: taking succeeds at once or fails
    }
}

/// The bare way to signal: a write to a key, and the event of it on another connection.
#[derive(Clone)]
pub(crate) struct Watched {
    client: Client,
    other: Arc<str>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watched({})", self.other)
    }
}

impl Watched {
    /// Two sides, each with a key that it watches.
    pub(super) async fn hand_offs(server: &Server, number: usize) -> Result<[BareHandOff<Self>; 2]> {
        let key = |side: usize| server.key(&format!("baton-{number}-{side}"));
        BareHandOff::sides(async |own, other, waiters| {
            let client = server.connect().await?;
            let mut watching = client.watch_client().watch(key(own), None).await?;
            tokio::spawn(async move {
                while let Ok(Some(answer)) = watching.message().await {
                    if !answer.events().is_empty() {
                        waiters.wake_first();
                    }
                }
            });
            Ok(Self { client, other: key(other).into() })
        })
        .await
    }
}

impl Signaller for Watched {
    async fn tell(&self) -> Result<()> {
        self.client.kv_client().put(&*self.other, "yours", None).await?;
        Ok(())
    }
}

/// A number in a key's value.
#[derive(Clone)]
pub(crate) struct Number {
    client: Client,
    key: Arc<str>,
}

impl std::fmt::Debug for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Number({})", self.key)
    }
}

impl Number {
    pub(super) async fn new(server: &Server, number: u32) -> Result<Self> {
        let fresh = Self { client: server.connect().await?, key: server.key("stock").into() };
        fresh.write(number).await?;
        Ok(fresh)
    }

    async fn look(&self) -> Result<(u32, i64)> {
        let got = self.client.kv_client().get(&*self.key, None).await?;
        let found = got.kvs().first().ok_or("the stock is gone")?;
        Ok((found.value_str()?.parse()?, found.mod_revision()))
    }
}

impl Stock for Number {
    async fn read(&self) -> Result<u32> {
        Ok(self.look().await?.0)
    }

    async fn write(&self, number: u32) -> Result<()> {
        self.client.kv_client().put(&*self.key, number.to_string(), None).await?;
        Ok(())
    }

    async fn take_one(&self) -> Result<bool> {
        loop {
            let (number, revision) = self.look().await?;
            let Some(less) = number.checked_sub(1) else { return Ok(false) };
            let same = Compare::mod_revision(&*self.key, CompareOp::Equal, revision);
            let txn = Txn::new().when([same]).and_then([TxnOp::put(&*self.key, less.to_string(), None)]);
            if self.client.kv_client().txn(txn).await?.succeeded() {
                return Ok(true);
            }
        }
    }
}
