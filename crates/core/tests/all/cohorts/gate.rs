//! A layer that keeps sessions from being opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Layer, Session, Signals};
use tidelock_core::{Options, SessionId};
use tidelock_memory::Store;
use tokio::sync::watch;

use crate::condition::until;

/// Keeps every session from being opened while it is shut.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) is_shut: watch::Sender<bool>,
    pub(super) opens: AtomicU64,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { is_shut: watch::Sender::new(false), opens: AtomicU64::new(0) })
    }

    /// The client with this label has no session any more, and is opening one in vain when this returns.
    pub(super) async fn shut_after_loss(&self, store: &Store, label: &str) {
        self.is_shut.send_replace(true);
        let before = self.opens.load(Ordering::Relaxed);
        assert_eq!(store.faults().lose_sessions_of(label), 1);
        until("a session is being opened", async || self.opens.load(Ordering::Relaxed) > before).await;
    }
}

#[async_trait]
impl Layer for Gate {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let opened = self.is_shut.subscribe().wait_for(|is_shut| !is_shut).await.is_ok();
        assert!(opened, "the gate is there");
        to.open(id, options, signals).await
    }
}
