//! Tidelock's mutex, as its users call it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::{Guard, Line, Locks, Mutex, Options};

use crate::Result;
use crate::exclusion::Exclusion;
use crate::subject::Subject;

#[derive(Clone)]
pub(crate) struct Ours {
    locks: Arc<dyn Locks>,
    mutex: Arc<dyn Mutex>,
}

impl Ours {
    pub(crate) fn new(locks: &Arc<dyn Locks>, name: &str) -> Result<Self> {
        Ok(Self { locks: locks.clone(), mutex: locks.mutex(name)? })
    }

    /// One name for this many tasks, which share the clients.
    pub(crate) fn shared(clients: &[Arc<dyn Locks>], name: &str, tasks: usize) -> Result<Vec<Self>> {
        clients.iter().cycle().take(tasks).map(|client| Self::new(client, name)).collect()
    }
}

/// The `linger` of a client whose tasks all stand in the store's line.
pub(crate) const STRICT: Duration = Duration::ZERO;

/// This many clients of a subject, with this `linger`.
pub(crate) async fn clients<S: Subject>(
    subject: &S,
    count: usize,
    linger: Duration,
) -> Result<Vec<Arc<dyn Locks>>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(subject.client(Options::new().linger(linger)).await?);
    }
    Ok(clients)
}

/// Closes all clients.
pub(crate) async fn close(clients: Vec<Arc<dyn Locks>>) -> Result<()> {
    for client in clients {
        client.close().await?;
    }
    Ok(())
}

impl Exclusion for Ours {
    type Held = Guard;

    async fn take(&self) -> Result<Guard> {
        Ok(self.mutex.lock().await?)
    }

    async fn give_back(&self, held: Guard) -> Result<()> {
        Ok(held.release().await?.confirmed()?)
    }

    async fn stand(&self, count: usize) -> Result<()> {
        while all(&self.locks.inspect(self.mutex.name()).await?) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

/// All that stand in this line, or in the local line behind one of its claims.
fn all(line: &Line) -> usize {
    line.claims.iter().map(|claim| 1 + claim.behind).sum()
}

impl fmt::Debug for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ours({})", self.mutex.name())
    }
}
