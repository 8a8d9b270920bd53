//! Leader election on ZooKeeper. Two nodes stand for election; the one that leads stops cleanly, and the other leads.
//!
//!     cargo xtask servers start zookeeper
//!     cargo run -p tidelock-zookeeper --example election -- zookeeper://127.0.0.1:PORT
//!
//! Each node is a client with a session of its own, as a process has. When a process dies while it leads, the next one
//! leads after the session has ended, a ttl later.

use std::collections::HashMap;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tidelock_zookeeper::{ErrorKind, Locks, Mutex, Options, Result, Store};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "zookeeper://127.0.0.1".into());
    let store = Store::open(&url)?;
    let (tell, mut leaders) = mpsc::unbounded_channel();
    let mut nodes = HashMap::new();
    for label in ["node a", "node b"] {
        // A standby waits for days, and that is worth no warning.
        let locks = store.connect(Options::new().label(label).warn_after(Duration::MAX)).await?;
        let campaign = tokio::spawn(campaign(label, locks.clone(), tell.clone()));
        nodes.insert(label, (locks, campaign));
    }
    drop(tell);

    while let Some(leader) = leaders.recv().await {
        println!("{leader} leads");
        let (locks, campaign) = nodes.remove(leader).ok_or("a node that has stopped leads")?;
        locks.close().await?; // a clean stop: the next node leads at once
        campaign.await??;
    }
    assert!(nodes.is_empty(), "a node gave up without having led");
    Ok(())
}

/// Stands for election again and again, until its client is closed.
async fn campaign(
    label: &'static str,
    locks: Arc<dyn Locks>,
    tell: mpsc::UnboundedSender<&'static str>,
) -> Result<()> {
    let election = locks.mutex("leader:billing")?;
    loop {
        let Err(ended) = term(label, &*election, &tell).await else { return Ok(()) };
        match ended.kind() {
            ErrorKind::Closed => return Ok(()),
            ErrorKind::Lost => {} // not the leader any more: stand again, at the tail of the line
            _ if ended.can_retry() => tokio::time::sleep(Duration::from_secs(1)).await, // the store is away
            _ => return Err(ended),
        }
    }
}

/// One term: waits to be elected, and leads until the work is done or the guard is lost.
async fn term(
    label: &'static str,
    election: &dyn Mutex,
    tell: &mpsc::UnboundedSender<&'static str>,
) -> Result<()> {
    let guard = election.lock().await?;
    guard.run(lead(label, tell)).await?;
    guard.release().await.map(drop)
}

/// The leader's work, for as long as it leads.
async fn lead(label: &'static str, tell: &mpsc::UnboundedSender<&'static str>) {
    let _ = tell.send(label);
    pending::<()>().await;
}
