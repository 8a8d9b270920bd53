//! Which node of a cluster has a name, and how to move a name to another node.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tidelock_core::{Error, ErrorKind, Result};

use super::servers::{Node, Servers, ask, in_time};

/// The pause after moving each key of the stage that asked for the move. Clients then meet a name with some keys on
/// each node.
const BETWEEN_KEYS: Duration = Duration::from_millis(60);
/// How long moving one key may take, in ms.
const ONE_KEY: u64 = 5_000;

impl Servers {
    /// The master that has each of these names. The names must not need escaping: then they are the hash tags of their
    /// keys.
    pub(super) async fn homes(&self, names: &[String]) -> Result<Vec<Node>> {
        let masters = self.masters().await?;
        let mut connection = first(&masters)?.connect().await?;
        let mut homes = Vec::new();
        for name in names {
            let slot = slot(&mut connection, name).await?;
            let nobody = || Error::new(ErrorKind::Unavailable, format!("no master has the slot {slot}"));
            homes.push(masters.iter().find(|node| has(node, slot)).cloned().ok_or_else(nobody)?);
        }
        Ok(homes)
    }

    /// Moves a name's slot to another master, key by key. Keys of idle names in other namespaces move along.
    pub(super) async fn move_name(&self, namespace: &str, name: &str) -> Result<()> {
        let mut masters = self.masters().await?;
        let slot = slot(&mut first(&masters)?.connect().await?, name).await?;
        masters.sort_by_key(|node| (!has(node, slot), node.port)); // the master that has it comes first
        let [from, to, ..] = masters.as_slice() else {
            return Err(Error::new(ErrorKind::Unavailable, "there is no second master"));
        };
        let set = |how: &str, node: &Node| {
            let mut command = cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg(how).arg(&node.id);
            command
        };
        to.ask::<()>(&set("IMPORTING", from)).await?;
        from.ask::<()>(&set("MIGRATING", to)).await?;
        move_keys(slot, namespace, from, to).await?;
        for node in [to, from].into_iter().chain(&masters[2..]) {
            node.ask::<()>(&set("NODE", to)).await?;
        }
        in_time("all masters know which node has the slot", || self.all_know(slot, to.port)).await
    }

    async fn all_know(&self, slot: u16, port: u16) -> Result<bool> {
        let views = self.masters_as_known_to_each().await;
        Ok(views.iter().all(|masters| masters.iter().any(|node| node.port == port && has(node, slot))))
    }
}

async fn move_keys(slot: u16, namespace: &str, from: &Node, to: &Node) -> Result<()> {
    loop {
        let keys: Vec<String> = from.ask(cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(100)).await?;
        if keys.is_empty() {
            return Ok(());
        }
        for key in keys {
            let mut migrate = cmd("MIGRATE");
            migrate.arg(&to.host).arg(to.port).arg(&key).arg(0).arg(ONE_KEY);
            from.ask::<String>(&migrate).await?;
            if key.starts_with(namespace) {
                tokio::time::sleep(BETWEEN_KEYS).await;
            }
        }
    }
}

async fn slot(connection: &mut MultiplexedConnection, name: &str) -> Result<u16> {
    ask(connection, cmd("CLUSTER").arg("KEYSLOT").arg(name)).await
}

fn first(masters: &[Node]) -> Result<&Node> {
    masters.first().ok_or_else(|| Error::new(ErrorKind::Unavailable, "there is no master"))
}

fn has(node: &Node, slot: u16) -> bool {
    node.slots.iter().any(|slots| slots.contains(&slot))
}
