//! A session as this client uses it: the store's side, the table of its claims, and the channel to its keeper.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, Clock, Moment, Session, Signals};
use crate::deadline;
use crate::keeper::{self, Keeper, Request, ttl_of};
use crate::limit::Limit;
use crate::registry::Registry;
use crate::shared_task::failed_inside;
use crate::{Error, ErrorKind, Options, Result, SessionId, random, shield};

/// A session in use. When its last handle is dropped, the keeper gives back what is left and closes the session.
#[derive(Debug)]
pub(crate) struct LiveSession {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Arc<Options>,
    /// When it was open.
    pub(crate) opened_at: Moment,
    pub(crate) keeper: mpsc::UnboundedSender<Request>,
}

impl LiveSession {
    /// Opens a session and starts its keeper. It must be polled on the keeper's runtime.
    pub(crate) async fn open(backend: Arc<dyn Backend>, options: Arc<Options>) -> Result<Arc<Self>> {
        let id = SessionId::from_bits(random::number()?);
        let clock = backend.clock();
        let registry = Arc::new(Registry::new(id, clock.clone(), &options));
        let asked = clock.now();
        let opening = backend.open(id, &options, registry.clone());
        let session = deadline::answer_within(&clock, options.connect_deadline, opening).await?;
        registry.set_ttl(ttl_of(&*session));
        let (keeper, requests) = mpsc::unbounded_channel();
        let task = Keeper::new(session.clone(), registry.clone(), clock.clone(), options.clone(), asked);
        tokio::spawn(task.run(requests));
        let opened_at = clock.now();
        Ok(Arc::new(Self { session, registry, clock, options, opened_at, keeper }))
    }

    /// How long to wait for an answer about a claim: after its lease it is of no use.
    pub(crate) fn claim_deadline(&self) -> Duration {
        self.options.command_deadline.min(ttl_of(&*self.session))
    }

    /// The answer to a request, within the deadline of one command.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = Result<T>>) -> Result<T> {
        // Yields now and then, also if the store always answers at once.
        tokio::task::coop::consume_budget().await;
        self.ask_within(self.options.command_deadline, question).await
    }

    pub(crate) async fn ask_within<T>(
        &self,
        longest: Duration,
        question: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let answer = deadline::answer_within(&self.clock, longest, shield::around(question)).await;
        answer.inspect_err(|error| self.note(error))
    }

    /// Sees a request through on the keeper's runtime, even if nobody waits for the answer.
    pub(crate) async fn carry_out<T: Send + 'static>(
        &self,
        order: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (clock, longest) = (self.clock.clone(), self.options.command_deadline);
        let carried_out =
            keeper::handle()?.spawn(async move { deadline::answer_within(&clock, longest, order).await });
        let answer = shield::around(carried_out).await.unwrap_or_else(|_| Err(failed_inside()));
        answer.inspect_err(|error| self.note(error))
    }

    /// The first caller that learns that the session is over tells all others.
    fn note(&self, error: &Error) {
        if error.kind() == ErrorKind::Lost {
            self.registry.over();
        }
    }

    /// Takes no more claims, and turns away those that wait. Returns whether those that hold were all given back before
    /// `by`, if there is such a limit; those that were lost count too.
    pub(crate) async fn drain(&self, by: Option<Limit>) -> bool {
        let (turned_away, holding) = self.registry.begin_draining();
        for entry in turned_away {
            // No keeper means that the session is closed, and the claim with it.
            let _ = self.keeper.send(Request::SeeThrough { entry, reply: None });
        }
        let given_back = async {
            for entry in holding {
                let lost = entry.listen();
                poll_fn(|cx| lost.poll(cx)).await;
            }
            // Their users may still wait for the store to confirm it.
            let confirmed = Limit::after(self.options.command_deadline, &self.clock);
            confirmed.of(&self.clock, shield::around(self.registry.emptied())).await;
        };
        match by {
            Some(by) => by.of(&self.clock, given_back).await.is_some(),
            None => {
                given_back.await;
                true
            }
        }
    }

    /// Tries again to end the session, which ends every claim in it. Its keeper has given up before.
    pub(crate) async fn end(&self, by: Limit) -> Result<()> {
        let surely_over = self.registry.surely_over_at();
        let ended = keeper::end_surely(&*self.session, &self.clock, &self.options, by, surely_over).await;
        let ended = ended.unwrap_or_else(|| Err(deadline::no_answer()));
        if self.registry.is_surely_over() { Ok(()) } else { ended }
    }

    /// Gives back every claim and ends the session. Waits until the store has confirmed it, until `by` at most.
    pub(crate) async fn close(&self, by: Limit) -> Result<()> {
        let (done, closed) = oneshot::channel();
        if self.keeper.send(Request::Close { by, done }).is_err() {
            return Err(failed_inside());
        }
        closed.await.unwrap_or_else(|_| Err(failed_inside()))
    }
}
