//! The twins: a node that is made and deleted, a node that is written and watched, and a number in a node.

use std::sync::Arc;

use tidelock_bench::{BareHandOff, Exclusion, Result, Signaller, Stock};
use zookeeper_client::{Acls, AddWatchMode, Client, CreateMode, Error as Said};

use super::server::Server;

/// One take and one give-back: two requests over a connection that others may share.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    client: Arc<Client>,
    path: Arc<str>,
}

impl Pair {
    pub(super) fn new(client: &Arc<Client>, path: String) -> Self {
        Self { client: client.clone(), path: path.into() }
    }
}

impl Exclusion for Pair {
    type Held = ();

    async fn take(&self) -> Result<()> {
        let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        self.client.create(&self.path, b"", &mode).await?;
        Ok(())
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        Ok(self.client.delete(&self.path, None).await?)
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // nobody waits: taking succeeds at once or fails
    }
}

/// The bare way to signal: a write to a node, and the event of it on another connection.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    client: Arc<Client>,
    other: Arc<str>,
}

impl Watched {
    /// Two sides, each with a node that it watches.
    pub(super) async fn hand_offs(server: &Server, number: usize) -> Result<[BareHandOff<Self>; 2]> {
        let path = |side: usize| server.path(&format!("baton-{number}-{side}"));
        let maker = server.connect().await?;
        for side in [0, 1] {
            maker.create(&path(side), b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        }
        BareHandOff::sides(async |own, other, waiters| {
            let client = server.connect().await?;
            let mut watcher = client.watch(&path(own), AddWatchMode::Persistent).await?;
            tokio::spawn(async move {
                while !watcher.changed().await.session_state.is_terminated() {
                    waiters.wake_first();
                }
            });
            Ok(Self { client, other: path(other).into() })
        })
        .await
    }
}

impl Signaller for Watched {
    async fn tell(&self) -> Result<()> {
        self.client.set_data(&self.other, b"yours", None).await?;
        Ok(())
    }
}

/// A number in a node's data.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    client: Arc<Client>,
    path: Arc<str>,
}

impl Number {
    pub(super) async fn new(server: &Server, number: u32) -> Result<Self> {
        let (client, path) = (server.connect().await?, server.path("stock"));
        let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
        match client.create(&path, b"", &mode).await {
            Ok(_) | Err(Said::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
        let fresh = Self { client, path: path.into() };
        fresh.write(number).await?;
        Ok(fresh)
    }

    async fn look(&self) -> Result<(u32, i32)> {
        let (data, stat) = self.client.get_data(&self.path).await?;
        Ok((std::str::from_utf8(&data)?.parse()?, stat.version))
    }
}

impl Stock for Number {
    async fn read(&self) -> Result<u32> {
        Ok(self.look().await?.0)
    }

    async fn write(&self, number: u32) -> Result<()> {
        self.client.set_data(&self.path, number.to_string().as_bytes(), None).await?;
        Ok(())
    }

    async fn take_one(&self) -> Result<bool> {
        loop {
            let (number, version) = self.look().await?;
            let Some(less) = number.checked_sub(1) else { return Ok(false) };
            match self.client.set_data(&self.path, less.to_string().as_bytes(), Some(version)).await {
                Ok(_) => return Ok(true),
                Err(Said::BadVersion) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
