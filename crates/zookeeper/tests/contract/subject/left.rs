//! What a stage left behind, nodes and watches of its namespace; and how to delete everything.

use std::time::Duration;

use tidelock_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use zookeeper_client::{Client, Error as Said};

use tidelock_conformance::Seat;

/// How long servers may take to serve again.
const IN_STEP: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(50);

async fn connect(hosts: &[String]) -> Result<Client> {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(10)).with_fail_eagerly();
    connector.connect(&hosts.join(",")).await.map_err(|error| trouble(&error))
}

/// What is left in the namespaces that begin with `namespace`.
pub(super) async fn over(hosts: &[String], namespace: &str, is_anyone_open: bool) -> Result<Vec<String>> {
    let client = connect(hosts).await?;
    let mut left = Vec::new();
    let roots = client.list_children("/").await.map_err(|error| trouble(&error))?;
    for root in roots.iter().filter(|root| root.starts_with(namespace)) {
        let root = format!("/{root}");
        for line in there(client.list_children(&root).await)?.unwrap_or_default() {
            let line = format!("{root}/{line}");
            let Some(stat) = client.check_stat(&line).await.map_err(|error| trouble(&error))? else {
                continue;
            };
            if stat.num_children > 0 {
                left.push(format!("a claim is left in line at {line}"));
            } else if stat.cversion == 0 {
                left.push(format!("{line} has never had a child, so the server will never remove it"));
            }
        }
    }
    if !is_anyone_open {
        for host in hosts {
            let watched = four_letters(host, "wchp").await.unwrap_or_default();
            let is_ours = |line: &&str| line.starts_with(&format!("/{namespace}"));
            left.extend(watched.lines().filter(is_ours).map(|path| format!("a client still watches {path}")));
        }
    }
    Ok(left)
}

/// Deletes every node except the server's own.
pub(super) async fn forget(hosts: &[String]) -> Result<()> {
    let client = connect(hosts).await?;
    let (mut paths, mut next) = (vec!["/".to_owned()], 0);
    while next < paths.len() {
        // One level at a time: it may have thousands of nodes.
        let listing: Vec<_> = paths[next..].iter().map(|path| client.get_children(path)).collect();
        let parents = paths[next..].to_vec();
        next = paths.len();
        for (parent, listed) in parents.iter().zip(listing) {
            let parent = parent.trim_end_matches('/');
            let children = listed.await.map(|(children, _)| children).unwrap_or_default();
            let paths_of = children.iter().map(|child| format!("{parent}/{child}"));
            paths.extend(paths_of.filter(|path| path != "/zookeeper"));
        }
    }
    let deleting: Vec<_> = paths[1..].iter().rev().map(|path| client.delete(path, None)).collect();
    for deleted in deleting {
        match deleted.await {
            // Nodes of other users are not ours to delete.
            Ok(()) | Err(Said::NoNode | Said::NotEmpty | Said::NoAuth) => {}
            Err(error) => return Err(trouble(&error)),
        }
    }
    Ok(())
}

/// Waits until every server serves.
pub(super) async fn settle(hosts: &[String]) -> Result<()> {
    let began = Instant::now();
    for host in hosts {
        while !four_letters(host, "srvr").await.is_some_and(|said| said.contains("Mode: ")) {
            if began.elapsed() > IN_STEP {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("{host} did not serve again within {IN_STEP:?}"),
                ));
            }
            tokio::time::sleep(GLANCE).await;
        }
    }
    Ok(())
}

/// The first server in that seat.
pub(super) async fn seated(hosts: &[String], seat: Seat) -> Result<&str> {
    let mode = match seat {
        Seat::Leader => "Mode: leader",
        Seat::Follower => "Mode: follower",
    };
    let began = Instant::now();
    while began.elapsed() < IN_STEP {
        for host in hosts {
            if four_letters(host, "srvr").await.is_some_and(|said| said.contains(mode)) {
                return Ok(host);
            }
        }
        tokio::time::sleep(GLANCE).await; // an election may be under way
    }
    Err(Error::new(ErrorKind::Unavailable, format!("the ensemble has no server that is {seat}")))
}

async fn four_letters(host: &str, letters: &str) -> Option<String> {
    let mut server = TcpStream::connect(host).await.ok()?;
    server.write_all(letters.as_bytes()).await.ok()?;
    let mut said = String::new();
    server.read_to_string(&mut said).await.ok()?;
    Some(said)
}

/// `None`: the node is gone by now.
fn there<T>(answer: Result<T, Said>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Said::NoNode) => Ok(None),
        Err(error) => Err(trouble(&error)),
    }
}

fn trouble(error: &Said) -> Error {
    Error::new(ErrorKind::Unavailable, "the suite's own connection to ZooKeeper failed")
        .because(error.clone())
}
