//! The local lines of a stage's clients: who waits behind a claim of its own client, where the store's line shows nobody.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidelock_core::{Line, Locks};

/// How long a client may take to answer, in real time: a fault may keep it from answering at all.
const PATIENCE: Duration = Duration::from_millis(100);

/// The clients, by their labels, that pass holds on among their own tasks.
#[derive(Debug, Default)]
pub(crate) struct LocalLines(Mutex<Vec<(String, Weak<dyn Locks>)>>);

impl LocalLines {
    /// A client has them, unless it passes nothing on.
    pub(crate) fn add(&self, label: &str, locks: &Arc<dyn Locks>, linger: Duration) {
        if !linger.is_zero() {
            let client = (label.to_owned(), Arc::downgrade(locks));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        }
    }

    /// How many wait behind the claims of their own clients in the store's line of this name. A client that does not answer
    /// counts for nothing.
    pub(crate) async fn behind(&self, name: &str, line: &Line) -> usize {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let has_claim = |label: &str| line.claims.iter().any(|claim| claim.label == label);
        let concerned = clients.iter().filter(|(label, _)| has_claim(label));
        let mut behind = 0;
        for locks in concerned.filter_map(|(_, locks)| locks.upgrade()) {
            if let Ok(Ok(line)) = tokio::time::timeout(PATIENCE, locks.inspect(name)).await {
                behind += line.claims.iter().map(|claim| claim.behind).sum::<usize>();
            }
        }
        behind
    }
}
