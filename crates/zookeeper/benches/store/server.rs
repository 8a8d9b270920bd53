//! The server as an operator sees it: plain connections, the nodes of the bare requests, and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock_bench::{Counts, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Acls, Client, CreateMode, Error as Said};

pub(super) struct Server {
    hosts: String,
    client: Client,
    /// The node above those of the bare requests.
    root: String,
}

/// How much reading the counters adds to them each time: packets received and sent.
#[derive(Debug)]
pub(super) struct Meter {
    each: (u64, u64),
    asked: AtomicU64,
}

impl Server {
    pub(super) async fn at(url: &str, root: &str) -> Result<Self> {
        let hosts = url.trim_start_matches("zookeeper://").to_owned();
        let client = connect(&hosts).await?;
        let server = Self { hosts, client, root: root.to_owned() };
        server.make_root().await?;
        Ok(server)
    }

    async fn make_root(&self) -> Result<()> {
        match self.client.create(&self.root, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await
        {
            Ok(_) | Err(Said::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn connect(&self) -> Result<Arc<Client>> {
        Ok(Arc::new(connect(&self.hosts).await?))
    }

    pub(super) fn path(&self, node: &str) -> String {
        format!("{}/{node}", self.root)
    }

    /// Deletes everything below a path, and its own node. A missing path is no error.
    pub(super) async fn remove(&self, path: &str) -> Result<()> {
        let (mut paths, mut next) = (vec![path.to_owned()], 0);
        while let Some(parent) = paths.get(next).cloned() {
            let children = self.client.list_children(&parent).await.unwrap_or_default();
            paths.extend(children.iter().map(|child| format!("{parent}/{child}")));
            next += 1;
        }
        for path in paths.iter().rev() {
            match self.client.delete(path, None).await {
                Ok(()) | Err(Said::NoNode | Said::NotEmpty) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Deletes the nodes of the bare requests, and makes the node above them again.
    pub(super) async fn remove_all(&self) -> Result<()> {
        self.remove(&self.root).await?;
        self.make_root().await
    }

    pub(super) async fn meter(&self) -> Result<Meter> {
        let (first, second) = (self.packets().await?, self.packets().await?);
        Ok(Meter { each: (second.0 - first.0, second.1 - first.1), asked: AtomicU64::new(0) })
    }

    pub(super) async fn counts(&self, meter: &Meter) -> Result<Counts> {
        let asked = meter.asked.fetch_add(1, Ordering::Relaxed);
        let (received, sent) = self.packets().await?;
        let commands = (received - asked * meter.each.0) as f64;
        let events = (sent - asked * meter.each.1) as f64 - commands;
        Ok(Counts { commands: Some(commands), events: Some(events), ..Counts::default() })
    }

    async fn packets(&self) -> Result<(u64, u64)> {
        let host = self.hosts.split(',').next().unwrap_or_default();
        let mut server = TcpStream::connect(host).await?;
        server.write_all(b"mntr").await?;
        let mut said = String::new();
        server.read_to_string(&mut said).await?;
        let number = |key: &str| -> Result<u64> {
            let line = said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'));
            Ok(line.ok_or("the server does not answer mntr: add it to 4lw.commands.whitelist")?.parse()?)
        };
        Ok((number("zk_packets_received")?, number("zk_packets_sent")?))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.hosts)
    }
}

async fn connect(hosts: &str) -> Result<Client> {
    Ok(Client::connector().with_session_timeout(Duration::from_secs(15)).connect(hosts).await?)
}
