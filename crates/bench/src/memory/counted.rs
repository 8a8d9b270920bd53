//! The memory store with a counter between it and core: it counts each request, and each signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidelock_bench::Counts;
use tidelock_core::backend::{
    Backend, Claim, Grant, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals,
};
use tidelock_core::{ClaimId, Line, Name, Options, Result, SessionId, Weight};

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    commands: AtomicU64,
    events: AtomicU64,
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let read = |figure: &AtomicU64| Some(figure.load(Ordering::Acquire) as f64);
        Counts { commands: read(&self.commands), events: read(&self.events), ..Counts::default() }
    }

    /// Counts one more command, and returns the store to pass it to.
    fn ask<'a, T: ?Sized>(&self, to: &'a T) -> &'a T {
        self.commands.fetch_add(1, Ordering::AcqRel);
        to
    }
}

#[async_trait]
impl Layer for Tally {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        Arc::new(CountedSignals { tally: self, to })
    }

    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.ask(to).open(id, options, signals).await
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.ask(to).join(claim, patience).await
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.ask(to).look(name, waiting).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.ask(to).leave(name, id, how)
    }

    async fn lighten(&self, to: &Arc<dyn Session>, claim: &Claim, weight: Weight) -> Result<()> {
        self.ask(to).lighten(claim, weight).await
    }

    async fn resize(&self, to: &Arc<dyn Session>, name: &Name, from: Weight, size: Weight) -> Result<()> {
        self.ask(to).resize(name, from, size).await
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.ask(to).renew(shard, standing).await
    }

    async fn line(&self, to: &Arc<dyn Session>, name: &Name) -> Result<Line> {
        self.ask(to).line(name).await
    }

    async fn names(&self, to: &Arc<dyn Session>, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.ask(to).names(prefix, after).await
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        self.ask(to).close().await
    }
}

#[derive(Debug)]
struct CountedSignals {
    tally: Arc<Tally>,
    to: Arc<dyn Signals>,
}

impl CountedSignals {
    /// Counts one more event, and returns the receiver to pass it to.
    fn tell(&self) -> &dyn Signals {
        self.tally.events.fetch_add(1, Ordering::AcqRel);
        &*self.to
    }
}

impl Signals for CountedSignals {
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
