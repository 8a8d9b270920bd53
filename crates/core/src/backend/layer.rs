//! A layer between core and a session. It sees every request and every signal, and may change them.
//!
//! By default every method passes on its arguments. A wire that can be cut is a layer; so is each deliberately broken
//! backend, which changes one method.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Backend, Claim, Clock, Leave, Left, Numbered, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals,
};
use crate::{ClaimId, Line, Name, Options, Result, SessionId, Token, Weight};
use async_trait::async_trait;

/// A layer between core and one client's session. `to` is the session itself.
#[async_trait]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// Receives the backend's signals before core does.
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        to
    }

    /// Opens a session.
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        to.open(id, options, signals).await
    }

    /// See [`Session::ttl`].
    fn ttl(&self, to: &Arc<dyn Session>) -> Duration {
        to.ttl()
    }

    /// See [`Session::shard`].
    fn shard(&self, to: &Arc<dyn Session>, name: &Name) -> Shard {
        to.shard(name)
    }

    /// See [`Session::join`].
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        to.join(claim, patience).await
    }

    /// See [`Session::look`].
    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        to.look(name, waiting).await
    }

    /// See [`Session::not_held`]. A layer that changes what a look reports has to change this too.
    async fn not_held(
        &self,
        to: &Arc<dyn Session>,
        name: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        to.not_held(name, believed).await
    }

    /// See [`Session::leave`].
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        to.leave(name, id, how)
    }

    /// See [`Session::lighten`].
    async fn lighten(&self, to: &Arc<dyn Session>, claim: &Claim, weight: Weight) -> Result<()> {
        to.lighten(claim, weight).await
    }

    /// See [`Session::resize`].
    async fn resize(&self, to: &Arc<dyn Session>, name: &Name, from: Weight, size: Weight) -> Result<()> {
        to.resize(name, from, size).await
    }

    /// See [`Session::renew`].
    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        to.renew(shard, standing).await
    }

    /// See [`Session::line`].
    async fn line(&self, to: &Arc<dyn Session>, name: &Name) -> Result<Line> {
        to.line(name).await
    }

    /// See [`Session::names`].
    async fn names(&self, to: &Arc<dyn Session>, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        to.names(prefix, after).await
    }

    /// See [`Session::close`].
    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        to.close().await
    }
}

/// A backend with a layer in front of it.
#[derive(Debug)]
pub struct Layered {
    inner: Arc<dyn Backend>,
    layer: Arc<dyn Layer>,
}

impl Layered {
    /// Puts `layer` in front of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, layer: Arc<dyn Layer>) -> Self {
        Self { inner, layer }
    }
}

#[async_trait]
impl Backend for Layered {
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    fn store(&self) -> &str {
        self.inner.store()
    }

    fn check(&self, options: &Options) -> Result<()> {
        self.inner.check(options)
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let signals = self.layer.clone().signals(signals);
        let inner = self.layer.open(&*self.inner, id, options, signals).await?;
        Ok(Arc::new(LayeredSession { inner, layer: self.layer.clone() }))
    }
}

#[derive(Debug)]
struct LayeredSession {
    inner: Arc<dyn Session>,
    layer: Arc<dyn Layer>,
}

#[async_trait]
impl Session for LayeredSession {
    fn ttl(&self) -> Duration {
        self.layer.ttl(&self.inner)
    }

    fn shard(&self, name: &Name) -> Shard {
        self.layer.shard(&self.inner, name)
    }

    fn number(&self, name: &Name, fresh: u64) -> Numbered {
        self.inner.number(name, fresh)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.layer.join(&self.inner, claim, patience).await
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.layer.look(&self.inner, name, waiting).await
    }

    async fn not_held(&self, name: &Name, believed: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        self.layer.not_held(&self.inner, name, believed).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.layer.clone().leave(&self.inner, name, id, how)
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.layer.lighten(&self.inner, claim, weight).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.layer.resize(&self.inner, name, from, to).await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.layer.renew(&self.inner, shard, standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        self.layer.line(&self.inner, name).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.layer.names(&self.inner, prefix, after).await
    }

    async fn close(&self) -> Result<()> {
        self.layer.close(&self.inner).await
    }

    async fn clean_up(&self) {
        self.inner.clean_up().await;
    }
}
