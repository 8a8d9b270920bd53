//! The local lines of a stage's clients: who waits behind a claim of its own client, where the store's line shows nobody.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidelock_core::Locks;

/// How long a client may take to answer, in real time: a fault may keep it from answering at all.
const PATIENCE: Duration = Duration::from_millis(100);

/// The clients that pass holds on among their own tasks.
#[derive(Debug, Default)]
pub(crate) struct LocalLines(Mutex<Vec<Weak<dyn Locks>>>);

impl LocalLines {
    /// A client has them, unless it passes nothing on.
    pub(crate) fn add(&self, locks: &Arc<dyn Locks>, linger: Duration) {
        if !linger.is_zero() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(locks));
        }
    }

    /// How many wait behind a claim of their own client. A client that does not answer counts for nothing.
    pub(crate) async fn behind(&self, name: &str) -> usize {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut behind = 0;
        for locks in clients.iter().filter_map(Weak::upgrade) {
            if let Ok(Ok(line)) = tokio::time::timeout(PATIENCE, locks.inspect(name)).await {
                behind += line.claims.iter().map(|claim| claim.behind).sum::<usize>();
            }
        }
        behind
    }
}
