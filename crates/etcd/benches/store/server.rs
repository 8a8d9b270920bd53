//! The server as an operator sees it: plain connections, the keys of the bare requests, and its counters.

use tidelock_bench::{Counts, Result};
use tidelock_etcd::etcd_client::{Client, DeleteOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct Server {
    hosts: Vec<String>,
    client: Client,
    /// What the keys of the bare requests begin with.
    root: String,
}

impl Server {
    pub(super) async fn at(url: &str, root: &str) -> Result<Self> {
        let hosts: Vec<String> = url.trim_start_matches("etcd://").split(',').map(str::to_owned).collect();
        let client = Client::connect(&hosts[..1], None).await?;
        Ok(Self { hosts, client, root: root.to_owned() })
    }

    pub(super) async fn connect(&self) -> Result<Client> {
        Ok(Client::connect(&self.hosts[..1], None).await?)
    }

    pub(super) fn key(&self, key: &str) -> String {
        format!("{}{key}", self.root)
    }

    /// Deletes all keys that begin like this.
    pub(super) async fn remove(&self, prefix: &str) -> Result<()> {
        self.client.kv_client().delete(prefix, Some(DeleteOptions::new().with_prefix())).await?;
        Ok(())
    }

    /// Deletes the keys of the bare requests.
    pub(super) async fn remove_all(&self) -> Result<()> {
        self.remove(&self.root).await
    }

    pub(super) async fn counts(&self) -> Result<Counts> {
        let (mut commands, mut events) = (0.0, 0.0);
        for host in &self.hosts {
            let said = metrics(host).await?;
            for line in said.lines() {
                let value =
                    || line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok()).unwrap_or(0.0);
                if line.starts_with("grpc_server_msg_received_total{") && line.contains("\"etcdserverpb.KV\"")
                {
                    commands += value();
                } else if line.starts_with("etcd_debugging_mvcc_events_total ") {
                    events += value();
                }
            }
        }
        Ok(Counts { commands: Some(commands), events: Some(events), ..Counts::default() })
    }
}

async fn metrics(host: &str) -> Result<String> {
    let mut server = TcpStream::connect(host).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    let mut said = String::new();
    server.read_to_string(&mut said).await?;
    Ok(said)
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.hosts.join(","))
    }
}
