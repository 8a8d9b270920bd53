//! A session as this client uses it: the store's side, the table of its claims, and the way to its keeper.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::deadline;
use crate::keeper::{self, Errand, Keeper, Leaving};
use crate::registry::Registry;
use crate::standing::Standing;
use crate::{Backend, Clock, Error, ErrorKind, Options, Result, Session, SessionId};

/// A session in use. When the last of these is dropped, its keeper gives back what is left and closes the session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Arc<Options>,
    keeper: mpsc::UnboundedSender<Errand>,
}

impl Live {
    /// Opens a session on the keeper's runtime, and gives it a keeper.
    pub(crate) async fn open(backend: Arc<dyn Backend>, options: Arc<Options>) -> Result<Arc<Self>> {
        let opening = keeper::handle()?.spawn(Self::open_here(backend, options));
        opening.await.map_err(panicked)?
    }

    async fn open_here(backend: Arc<dyn Backend>, options: Arc<Options>) -> Result<Arc<Self>> {
        let no_entropy =
            |error| Error::new(ErrorKind::Unavailable, "the system gives no random numbers").because(error);
        let id = SessionId::from_bits(getrandom::u64().map_err(no_entropy)?);
        let clock = backend.clock();
        let registry = Arc::new(Registry::new(id, clock.clone(), &options));
        let opening = backend.open(id, &options, registry.clone());
        let session = deadline::answer_within(&clock, options.connect_deadline, opening).await?;
        registry.set_ttl(session.ttl());
        let (keeper, errands) = mpsc::unbounded_channel();
        let task = Keeper::new(session.clone(), registry.clone(), clock.clone(), options.clone());
        tokio::spawn(task.run(errands));
        Ok(Arc::new(Self { session, registry, clock, options, keeper }))
    }

    /// Takes a claim that is over for its user out of the line.
    pub(crate) fn leave<'a>(&'a self, standing: &'a Arc<Standing>) -> Leaving<'a> {
        self.registry.remove(standing.claim.id.number);
        Leaving::start(&*self.session, &self.keeper, standing)
    }

    /// The answer to a question that changes nothing, within the deadline of one command.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = Result<T>>) -> Result<T> {
        deadline::answer_within(&self.clock, self.options.command_deadline, question).await
    }

    /// Sees an order through on the keeper's runtime, even if nobody waits for the answer.
    pub(crate) async fn tell<T: Send + 'static>(
        &self,
        order: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (clock, longest) = (self.clock.clone(), self.options.command_deadline);
        let told =
            keeper::handle()?.spawn(async move { deadline::answer_within(&clock, longest, order).await });
        told.await.map_err(panicked)?
    }

    /// Gives every claim back and ends the session; waits until the store has confirmed it.
    pub(crate) async fn close(&self, within: Duration) -> Result<()> {
        let (done, closed) = oneshot::channel();
        if self.keeper.send(Errand::Close { within, done }).is_err() {
            return Ok(()); // closed before
        }
        closed.await.unwrap_or(Ok(()))
    }
}

fn panicked(panic: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Protocol, "the backend failed inside").because(panic)
}
