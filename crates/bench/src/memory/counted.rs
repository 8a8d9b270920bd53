//! The memory store with a counter between it and core: it counts each request, and each signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_bench::Counts;
use tidelock_core::backend::{
    Backend, Claim, Clock, Grant, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals,
};
use tidelock_core::{ClaimId, Line, Name, Options, Result, SessionId, Weight};
use tidelock_memory::Store;

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    commands: AtomicU64,
    events: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Counted<T> {
    inner: T,
    tally: Arc<Tally>,
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let read = |figure: &AtomicU64| Some(figure.load(Ordering::Acquire) as f64);
        Counts { commands: read(&self.commands), events: read(&self.events), ..Counts::default() }
    }
}

impl Counted<Store> {
    pub(super) fn new(store: &Store, tally: &Arc<Tally>) -> Self {
        Self { inner: store.clone(), tally: tally.clone() }
    }
}

impl<T> Counted<T> {
    /// Counts one more command, and returns the store to pass it to.
    fn ask(&self) -> &T {
        self.tally.commands.fetch_add(1, Ordering::AcqRel);
        &self.inner
    }

    /// Counts one more event, and returns the receiver to pass it to.
    fn tell(&self) -> &T {
        self.tally.events.fetch_add(1, Ordering::AcqRel);
        &self.inner
    }
}

#[async_trait]
impl Backend for Counted<Store> {
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    fn store(&self) -> &str {
        self.inner.store()
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let tally = self.tally.clone();
        let signals = Arc::new(Counted { inner: signals, tally: tally.clone() });
        let inner = self.ask().open(id, options, signals).await?;
        Ok(Arc::new(Counted { inner, tally }))
    }
}

#[async_trait]
impl Session for Counted<Arc<dyn Session>> {
    fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    fn shard(&self, name: &Name) -> Shard {
        self.inner.shard(name)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.ask().join(claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.ask().look(name, waiting).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.ask().leave(name, id, how)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.ask().lighten(claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.ask().resize(name, from, to).await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.ask().renew(shard, standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.ask().line(name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.ask().names(prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.ask().close().await
    }
}

impl Signals for Counted<Arc<dyn Signals>> {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.tell().held(id, grant);
    }

    fn stray(&self, id: ClaimId) {
        self.tell().stray(id);
    }

    fn gone(&self, id: ClaimId) {
        self.tell().gone(id);
    }

    fn look(&self, name: &Name) {
        self.tell().look(name);
    }

    fn look_everywhere(&self) {
        self.tell().look_everywhere();
    }

    fn over(&self) {
        self.tell().over();
    }
}
