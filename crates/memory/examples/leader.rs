//! Leader election: the node that holds the lock leads, and stops leading when the guard is lost.
//!
//! `Guard::run` drops the leader's work as soon as the guard is lost. What was sent before may still arrive
//! afterwards: the token, sent with every write, makes the resource refuse it.

use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tidelock_memory::{ErrorKind, Fence, Locks, Options, Store, Token};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::timeout;

const ELECTION: &str = "leader:billing";
const BOUND: Duration = Duration::from_secs(10);

/// What the nodes report.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Leads(&'static str, Token),
    Deposed(&'static str),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let fence = Arc::new(Fence::new());
    let (tell, mut news) = mpsc::unbounded_channel();

    let mut clients = Vec::new();
    for node in ["node a", "node b"] {
        let locks = store.connect(Options::new().label(node)).await?;
        clients.push(locks.clone());
        tokio::spawn(campaign(node, locks, fence.clone(), tell.clone()));
    }

    let Some(News::Leads(first, old_token)) = news.recv().await else { unreachable!("a node leads first") };
    println!("{first} leads under token {old_token}");
    timeout(BOUND, somebody_waits(&*clients[0])).await??;

    // The leader's session ends: its lease ran out while it was cut off.
    store.faults().lose_sessions_of(first);

    // The old leader stops and the next one begins independently, in either order.
    let mut deposed = false;
    let (second, token) = loop {
        match news.recv().await.ok_or("the nodes are gone")? {
            News::Deposed(node) => {
                println!("{node} no longer leads");
                deposed = true;
            }
            News::Leads(node, token) => break (node, token),
        }
    };
    println!("{second} leads under token {token}");
    assert_ne!(second, first);
    assert!(token > old_token);

    let late = fence.accept(old_token);
    println!("a late write of {first}: {}", late.expect_err("an older token is refused"));

    if !deposed {
        assert_eq!(news.recv().await, Some(News::Deposed(first)));
        println!("{first} no longer leads");
    }
    for locks in clients {
        locks.close().await?;
    }
    Ok(())
}

async fn somebody_waits(locks: &dyn Locks) -> tidelock_memory::Result<()> {
    while locks.inspect(ELECTION).await?.waiters().next().is_none() {
        yield_now().await;
    }
    Ok(())
}

/// Joins the line, leads, and when the guard is lost joins again at the end of the line.
async fn campaign(
    node: &'static str,
    locks: Arc<dyn Locks>,
    fence: Arc<Fence>,
    tell: mpsc::UnboundedSender<News>,
) -> tidelock_memory::Result<()> {
    let election = locks.mutex(ELECTION)?;
    loop {
        let guard = election.lock().await?;
        let led = guard.run(lead(node, guard.token(), &fence, &tell)).await;
        match led {
            Err(error) if error.kind() == ErrorKind::Lost => {
                let _ = tell.send(News::Deposed(node));
            }
            other => return other?,
        }
    }
}

/// The work of a leader, for as long as it leads.
async fn lead(
    node: &'static str,
    token: Token,
    fence: &Fence,
    tell: &mpsc::UnboundedSender<News>,
) -> tidelock_memory::Result<()> {
    fence.accept(token)?; // the first write of the new leader: from here on older tokens are refused
    let _ = tell.send(News::Leads(node, token));
    pending().await
}
