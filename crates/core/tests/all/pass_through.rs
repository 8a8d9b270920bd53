//! A layer that changes nothing passes every call on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Layered, Patience, Place, Session};
use tidelock_core::{ClaimId, Kind, Name, Options, Result, SessionId, Token, Weight};
use tidelock_memory::Store;

use crate::deaf::Deaf;

/// A store that knows by itself that none of a client's claims holds any more.
#[derive(Debug)]
struct Knows;

#[async_trait]
impl Layer for Knows {
    async fn not_held(
        &self,
        _: &Arc<dyn Session>,
        _: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        Ok(believed.iter().map(|(id, _)| *id).collect())
    }
}

#[derive(Debug)]
struct Passes;

impl Layer for Passes {}

#[tokio::test]
async fn a_layer_passes_on_which_claims_a_store_knows_not_to_hold() -> Result<()> {
    let knows = Layered::new(Arc::new(Store::new()), Arc::new(Knows));
    let layered = Layered::new(Arc::new(knows), Arc::new(Passes));
    let options = Options::new().ttl(Duration::from_secs(15));
    let id = SessionId::from_bits(7);
    let session = layered.open(id, &options, Arc::new(Deaf)).await?;
    let claim = ClaimId { session: id, number: 1 };
    let name = Name::new("m")?;
    let join = Claim::new(claim, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    let Place::Held { grant, .. } = session.join(&join, Patience::Now).await? else {
        panic!("nobody else wants it")
    };
    // A look would find that it holds.
    assert_eq!(session.not_held(&name, &[(claim, grant.token)]).await?, [claim]);
    session.close().await
}
