//! Mixes up two names that differ by a slash: it keeps a tree of names and does not escape them.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight,
};
use tidelock_core::{ClaimId, Line, Name, Result, Token, Weight};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct MixesUpNames;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| MixesUpNames)
}

/// The name without empty parts of a path, as a tree would have it.
fn mixed(name: &Name) -> Name {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    Name::new(&parts.join("/")).unwrap_or_else(|_| name.clone())
}

fn mixed_claim(claim: &Claim) -> Claim {
    Claim::new(claim.id, mixed(&claim.name), claim.kind, claim.weight, claim.capacity)
}

#[async_trait]
impl Layer for MixesUpNames {
    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        to.join(&mixed_claim(claim), patience).await
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        to.look(&mixed(name), waiting).await
    }

    async fn not_held(
        &self,
        to: &Arc<dyn Session>,
        name: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        to.not_held(&mixed(name), believed).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        to.leave(&mixed(name), id, how)
    }

    async fn lighten(&self, to: &Arc<dyn Session>, claim: &Claim, weight: Weight) -> Result<()> {
        to.lighten(&mixed_claim(claim), weight).await
    }

    async fn resize(&self, to: &Arc<dyn Session>, name: &Name, from: Weight, size: Weight) -> Result<()> {
        to.resize(&mixed(name), from, size).await
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let standing: Vec<_> = standing.iter().map(|(name, ids)| (mixed(name), ids.clone())).collect();
        to.renew(shard, &standing).await
    }

    async fn line(&self, to: &Arc<dyn Session>, name: &Name) -> Result<Line> {
        to.line(&mixed(name)).await
    }
}
