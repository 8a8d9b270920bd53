//! Tokio's own mutex: exclusion within one process, without a store.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Result;
use crate::exclusion::Exclusion;

/// `tokio::sync::Mutex` behind an `Arc`.
#[derive(Clone, Debug, Default)]
pub struct TokioMutex(Arc<Mutex<()>>);

impl Exclusion for TokioMutex {
    type Held = OwnedMutexGuard<()>;

    async fn take(&self) -> Result<Self::Held> {
        Ok(self.0.clone().lock_owned().await)
    }

    async fn give_back(&self, held: Self::Held) -> Result<()> {
        drop(held);
        Ok(())
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // a task that was polled stands in line
    }
}
