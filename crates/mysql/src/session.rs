//! One client's session: a row that it renews, and claims that are alive as long as that row is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tidelock_core::backend::{Claim, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight};
use tidelock_core::{ClaimId, Line, Name, Result, Weight};
use tokio::task::AbortHandle;

use crate::answers::inside_a_transaction;
use crate::inside;
use crate::open_session::{OpenSession, given_up};
use crate::request::{Action, Outcome};
use crate::sql::{self, id as number, put};

/// The pause until a close is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// A session, and the task that hears of its grants.
#[derive(Debug)]
pub(crate) struct MySqlSession {
    session: Arc<OpenSession>,
    watching: AbortHandle,
}

impl MySqlSession {
    pub(crate) fn start(session: OpenSession) -> Self {
        let session = Arc::new(session);
        inside::enter(&session);
        let watching = session.runtime.spawn(session.clone().watch()).abort_handle();
        Self { session, watching }
    }

    async fn change(&self, name: &Name, action: Action) -> Result<()> {
        let (session, name) = (self.session.clone(), name.clone());
        let changing = async move {
            session.tidied(&name).await?; // the dead do not count
            session.gather(&name, action).await.map(drop)
        };
        self.session.at_the_keepers(changing).await
    }

    /// Leaves nothing behind. What was done before is not found again.
    async fn end(&self) -> Result<()> {
        let session = &self.session;
        // All at once: there may be thousands, and they share their transactions. All are awaited: if one is refused, the
        // others are in the queue, and would be in it a second time.
        let leaving = session.own_claims.unconfirmed().into_iter();
        let leaving = leaving.map(|(id, name)| session.gather(&name, Action::Leave { id, how: Leave::Done }));
        join_all(leaving).await.into_iter().collect::<Result<Vec<_>>>()?;
        session.leave_transactions().await?;
        let mut text = String::new();
        put(&mut text, sql::CLOSE, &[("me", &number(session.id))]);
        session.looks.ask(&text).await.map_err(|said| session.trouble(&said))?;
        let dropped = session.drop_claims(session.id, Duration::ZERO, false).await;
        dropped.map_err(|said| session.trouble(&said))
    }
}

impl Drop for MySqlSession {
    fn drop(&mut self) {
        self.watching.abort();
        inside::forget(self.session.id);
        // Perhaps no close has come this far: the task that watches must not ask for ever.
        self.session.own_claims.waits_for_no_transaction();
        self.session.ending.notify_one();
    }
}

#[async_trait]
impl Session for MySqlSession {
    fn ttl(&self) -> Duration {
        self.session.ttl
    }

    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        if self.session.own_claims.is_void(claim.id.number) {
            return Ok(Place::Gone);
        }
        match self
            .session
            .gather(
                &claim.name,
                Action::Join { claim: claim.clone(), patience, in_rows: inside::is_for_a_transaction() },
            )
            .await?
        {
            Outcome::Joined(place) => Ok(place),
            _ => Err(given_up()),
        }
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.session.look_for(name, waiting).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let session = &self.session;
        let surely_over = session.clock.now() + session.ttl * 2;
        let is_own = id.session == session.id;
        if is_own && !session.own_claims.leaves(id, name, surely_over) {
            if how == Leave::Done {
                session.ends_with_its_transaction(name, id);
            } else if !inside::is_left_to_a_transaction() {
                // An operator would make it void: nothing here ends a transaction.
                return Box::pin(std::future::ready(Err(inside_a_transaction())));
            }
            return Box::pin(std::future::ready(Ok(Left::Held)));
        }
        if is_own && how == Leave::Void && session.own_claims.make_void(id.number, surely_over) {
            session.own_claims.has_left(id);
            return Box::pin(std::future::ready(Ok(Left::Absent)));
        }
        let leaving = session.gather(name, Action::Leave { id, how });
        Box::pin(async move {
            match leaving.await? {
                Outcome::Left(left) => Ok(left),
                _ => Err(given_up()),
            }
        })
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        self.change(&claim.name, Action::Lighten { id: claim.id, weight }).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        self.change(name, Action::Resize { from, to }).await
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.session.renew(standing).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        let session = self.session.clone();
        let name = name.clone();
        self.session.at_the_keepers(async move { session.inspect(&name).await }).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let session = self.session.clone();
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        self.session.at_the_keepers(async move { session.names_in_use(&prefix, after.as_ref()).await }).await
    }

    /// Core has given every claim back. Leaves that the server did not confirm are repeated here. Everything is asked
    /// again as long as there is time: a connection may carry nothing any more.
    async fn close(&self) -> Result<()> {
        self.watching.abort();
        let session = &self.session;
        let late = session.clock.now() + session.within;
        while let Err(error) = self.end().await {
            if !error.can_retry() || session.clock.now() >= late {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
        session.own_claims.waits_for_no_transaction();
        session.ending.notify_one();
        session.lanes.give_up_others();
        Ok(())
    }

    async fn clean_up(&self) {
        self.session.clean_up().await;
    }
}
