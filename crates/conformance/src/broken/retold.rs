//! Reports grants under other tokens than the store's: shared by the two faults about tokens.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{
    Claim, Grant, Layer, Leave, Left, Patience, Place, Reply, Session, Sight, Signals,
};
use tidelock_core::{ClaimId, Name, Result, Token};

use crate::signal::{Signal, passing};

/// Changes how a grant is reported.
pub(super) trait Teller: fmt::Debug + Send + Sync + 'static {
    /// A claim is about to join.
    fn joining(&self, claim: &Claim);
    /// The token to report for its grant.
    fn token(&self, id: ClaimId, token: Token) -> Token;
    /// The claim has left.
    fn left(&self, name: &Name, id: ClaimId);
    /// The session is over.
    fn over(&self);
}

/// Reports every grant as its teller does.
#[derive(Debug)]
pub(super) struct Retold<T>(pub(super) Arc<T>);

fn retell(teller: &impl Teller, id: ClaimId, grant: Grant) -> Grant {
    Grant { token: teller.token(id, grant.token), ..grant }
}

#[async_trait]
impl<T: Teller> Layer for Retold<T> {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        let teller = self.0.clone();
        passing(to, move |signal| {
            match signal {
                Signal::Held(id, grant) => return Some(Signal::Held(id, retell(&*teller, id, grant))),
                Signal::Over => teller.over(),
                _ => {}
            }
            Some(signal)
        })
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.0.joining(claim);
        Ok(match to.join(claim, patience).await? {
            Place::Held { grant, until } => Place::Held { grant: retell(&*self.0, claim.id, grant), until },
            other => other,
        })
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let mut sight = to.look(name, waiting).await?;
        for (id, grant) in &mut sight.held {
            *grant = retell(&*self.0, *id, *grant);
        }
        Ok(sight)
    }

    /// The client knows its claims under the tokens that it was told, and only a look through here tells those.
    async fn not_held(
        &self,
        to: &Arc<dyn Session>,
        name: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        let claims: Vec<ClaimId> = believed.iter().map(|(id, _)| *id).collect();
        Ok(self.look(to, name, &claims).await?.not_held(believed))
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.0.left(name, id); // before the next grant is reported
        to.leave(name, id, how)
    }
}
