//! The members as their operator sees them: who leads, what they have counted, and how to empty them.

use std::time::Duration;

use tidelock_conformance::{Counts, Seat};
use tidelock_core::{Error, ErrorKind, Result};
use tidelock_etcd::etcd_client::{Client, ConnectOptions, DeleteOptions, GetOptions, Permission};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long members may take to serve again.
const IN_STEP: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(50);
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// All members, and the password of `root` if they have users.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) hosts: Vec<String>,
    pub(super) password: Option<String>,
}

impl Members {
    /// A connection to the first member that answers.
    async fn connect(&self) -> Result<Client> {
        let mut last = None;
        for host in &self.hosts {
            let user =
                self.password.as_ref().map(|password| ConnectOptions::new().with_user("root", password));
            let connecting = async {
                let client = Client::connect([host], user).await?;
                client.kv_client().get("tidelock probe", None).await?;
                Ok::<_, tidelock_etcd::etcd_client::Error>(client)
            };
            match tokio::time::timeout(ANSWERS_WITHIN, connecting).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => last = Some(trouble(error)),
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| Error::new(ErrorKind::Timeout, "no member of the etcd answers the suite")))
    }

    /// Waits until every member serves.
    pub(super) async fn settle(&self) -> Result<()> {
        let began = Instant::now();
        for host in &self.hosts {
            while !get(host, "/health").await.is_some_and(|said| said.contains("\"health\":\"true\"")) {
                if began.elapsed() > IN_STEP {
                    let wrong = format!("{host} did not serve again within {IN_STEP:?}");
                    return Err(Error::new(ErrorKind::Unavailable, wrong));
                }
                tokio::time::sleep(GLANCE).await;
            }
        }
        Ok(())
    }

    /// The first member in that seat.
    pub(super) async fn seated(&self, seat: Seat) -> Result<&str> {
        let wanted = match seat {
            Seat::Leader => "etcd_server_is_leader 1",
            Seat::Follower => "etcd_server_is_leader 0",
        };
        let began = Instant::now();
        while began.elapsed() < IN_STEP {
            for host in &self.hosts {
                if get(host, "/metrics").await.is_some_and(|said| said.lines().any(|line| line == wanted)) {
                    return Ok(host);
                }
            }
            tokio::time::sleep(GLANCE).await; // an election may be under way
        }
        Err(Error::new(ErrorKind::Unavailable, format!("the cluster has no member that is {seat}")))
    }

    /// What clients have sent to all members, without what comes at fixed intervals, and the events that they were sent.
    pub(super) async fn counts(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        for host in &self.hosts {
            let said = get(host, "/metrics").await.ok_or_else(|| {
                Error::new(ErrorKind::Unavailable, format!("{host} does not answer GET /metrics"))
            })?;
            counts = counts + read(&said);
        }
        Ok(counts)
    }

    /// What is left in the namespaces that begin with `namespace`.
    pub(super) async fn left(&self, namespace: &str, are_open: &[String]) -> Result<Vec<String>> {
        let client = self.connect().await?;
        let all = GetOptions::new().with_prefix().with_keys_only();
        let keys = client.kv_client().get(namespace, Some(all)).await.map_err(trouble)?;
        let is_left = |key: &String| !are_open.iter().any(|session| key.contains(session.as_str()));
        let keys = keys.kvs().iter().map(|key| String::from_utf8_lossy(key.key()).into_owned());
        Ok(keys.filter(is_left).map(|key| format!("the key {key} is left")).collect())
    }

    /// Deletes every key that begins like this.
    pub(super) async fn forget(&self, prefix: &str) -> Result<()> {
        let options = DeleteOptions::new();
        let all = if prefix.is_empty() { options.with_all_keys() } else { options.with_prefix() };
        self.connect().await?.kv_client().delete(prefix, Some(all)).await.map_err(trouble)?;
        Ok(())
    }

    /// Adds a user. `may` is what the keys begin with that it may read and write.
    pub(super) async fn add_user(&self, user: &str, password: &str, may: Option<&str>) -> Result<()> {
        let client = self.connect().await?;
        client.auth_client().user_add(user, password, None).await.map_err(trouble)?;
        let Some(prefix) = may else { return Ok(()) };
        client.auth_client().role_add(user).await.map_err(trouble)?;
        let all = Permission::read_write(prefix).with_prefix();
        client.auth_client().role_grant_permission(user, all).await.map_err(trouble)?;
        client.auth_client().user_grant_role(user, user).await.map_err(trouble)?;
        Ok(())
    }

    pub(super) async fn remove_user(&self, user: &str) -> Result<()> {
        let client = self.connect().await?;
        let _ = client.auth_client().role_delete(user).await; // it may have none
        client.auth_client().user_delete(user).await.map_err(trouble)?;
        Ok(())
    }
}

/// The counts in a member's metrics. A renewal's requests come at fixed intervals, whatever is held: a keep-alive, a list
/// of the lease's keys, and a plain read.
fn read(metrics: &str) -> Counts {
    let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok().map(|value| value as u64);
    let is_request = |line: &&str| {
        line.starts_with("grpc_server_msg_received_total{")
            && line.contains("grpc_service=\"etcdserverpb.KV\"")
            && ["Range", "Txn"].iter().any(|method| line.contains(&format!("grpc_method=\"{method}\"")))
    };
    let events =
        |line: &str| line.starts_with("etcd_debugging_mvcc_events_total ").then(|| value(line)).flatten();
    Counts {
        commands: metrics.lines().filter(is_request).filter_map(value).sum(),
        signals: metrics.lines().find_map(events).unwrap_or(0),
    }
}

async fn get(host: &str, path: &str) -> Option<String> {
    let asking = async {
        let mut server = TcpStream::connect(host).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.write_all(request.as_bytes()).await.ok()?;
        let mut said = Vec::new();
        server.read_to_end(&mut said).await.ok()?;
        Some(String::from_utf8_lossy(&said).into_owned())
    };
    tokio::time::timeout(ANSWERS_WITHIN, asking).await.ok().flatten()
}

pub(super) fn trouble(error: tidelock_etcd::etcd_client::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the suite's own connection to etcd failed").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_events_are_read_from_the_metrics() {
        let metrics = "\
            # HELP grpc_server_msg_received_total …\n\
            grpc_server_msg_received_total{grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 12\n\
            grpc_server_msg_received_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 3\n\
            grpc_server_msg_received_total{grpc_method=\"LeaseGrant\",grpc_service=\"etcdserverpb.Lease\",grpc_type=\"unary\"} 7\n\
            etcd_debugging_mvcc_events_total 1e+03\n";
        assert_eq!(read(metrics), Counts { commands: 15, signals: 1_000 });
    }
}
