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

    /// How many wait: in the store's line of this name, and behind the claims of their own clients there. What a client with
    /// a local line says counts for all of its own, since one that leads goes from the one line to the other. One that does
    /// not answer has only what the store's line shows.
    pub(crate) async fn waiting(&self, name: &str, line: &Line) -> usize {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of = |line: &Line, label: &str| line.waiters().filter(|claim| claim.label == label).count();
        let mut waiting = line.waiters().count();
        for (label, locks) in
            clients.iter().filter(|(label, _)| line.claims.iter().any(|claim| claim.label == *label))
        {
            let Some(locks) = locks.upgrade() else { continue };
            if let Ok(Ok(own)) = tokio::time::timeout(PATIENCE, locks.inspect(name)).await {
                let behind: usize = own.claims.iter().map(|claim| claim.behind).sum();
                waiting = waiting - of(line, label) + of(&own, label) + behind;
            }
        }
        waiting
    }
}
