//! Joins and leaves that are made at the same time are sent as one transaction.
//!
//! The server writes each transaction to its disk, and passes it through three threads: a batch costs what one request
//! costs. A transaction fails as a whole. So if one request fails, each is sent again by itself. A list that is wanted
//! with a join is sent directly behind it, in the same round trip, and one list of a name serves the whole batch. The
//! contents of a request are decided when it is sent: in a crowd, most requests know by then that they need no list.

use std::collections::HashMap;
use std::sync::Arc;

use tidelock_core::backend::{Batch, Way};
use tidelock_core::{ClaimId, Kind, Name};
use tokio::sync::oneshot;
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::{Asked, Change, Made};
use crate::open_session::OpenSession;
use crate::request::{Action, Answer, Request, SharedList};

/// The largest batch. A request has some hundred bytes, and a packet may have a megabyte.
pub(crate) const MOST: usize = 100;

/// A batch that was sent.
struct Flight {
    together: Vec<Sent>,
    /// None: there was at most one request, which was sent by itself.
    transaction: Option<Asked<Vec<Made>, MultiWriteError>>,
    apart: Vec<(Sent, Asked<Made, MultiWriteError>)>,
}

/// The changes of a request.
struct Plan {
    request: Request,
    changes: Vec<Change>,
    is_listed: bool,
}

/// One request of a batch, and the list behind it.
struct Sent {
    request: Request,
    listing: Option<SharedList>,
}

impl OpenSession {
    /// Sends a request together with others. When this returns, the request is under way, or queued behind the batch that is.
    pub(crate) fn gather(
        self: &Arc<Self>,
        id: ClaimId,
        name: &Name,
        action: Action,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let request = Request { id, name: name.clone(), action, answer };
        if let Some(flight) = self.batcher.enter(request, |batch| self.send(batch)) {
            self.runtime.spawn(self.clone().fly(flight));
        }
        async move {
            // It was retracted, or the keeper's runtime has ended.
            let given_up = || Answer { made: Err(Said::ClientClosed.into()), listing: None };
            answered.await.unwrap_or_else(|_| given_up())
        }
    }

    /// Answers a batch, and sends the requests that came meanwhile, until the queue is empty.
    async fn fly(self: Arc<Self>, first: Flight) {
        let flying = Flying(&self);
        let mut next = Some(first);
        while let Some(flight) = next {
            self.answer(flight).await;
            next = self.batcher.go_on(Way::Main, |batch| self.send(batch));
        }
        std::mem::forget(flying);
    }

    fn send(&self, mut batch: Batch<Request>) -> Flight {
        if batch.together.len() == 1 {
            batch.apart.splice(0..0, batch.together.drain(..));
        }
        let planned: Vec<Plan> = batch.together.into_iter().map(|request| self.plan(request)).collect();
        let changes: Vec<&[Change]> = planned.iter().map(|plan| plan.changes.as_slice()).collect();
        let transaction = (!changes.is_empty()).then(|| self.link.make_all(&changes, self.nodes.root()));
        let apart: Vec<_> = batch.apart.into_iter().map(|request| self.send_one(request)).collect();
        let listings = self.list_behind(planned.iter().chain(apart.iter().map(|(plan, _)| plan)));
        let sent = |plan: Plan| {
            let listing = if plan.is_listed { listings.get(&plan.request.name).cloned() } else { None };
            Sent { request: plan.request, listing }
        };
        let together = planned.into_iter().map(sent).collect();
        Flight {
            together,
            transaction,
            apart: apart.into_iter().map(|(plan, making)| (sent(plan), making)).collect(),
        }
    }

    fn send_one(&self, request: Request) -> (Plan, Asked<Made, MultiWriteError>) {
        let plan = self.plan(request);
        let making = self.link.make(&plan.changes, self.nodes.root());
        (plan, making)
    }

    /// Lists each name once, behind all requests of the batch.
    fn list_behind<'a>(&self, plans: impl Iterator<Item = &'a Plan>) -> HashMap<Name, SharedList> {
        let mut listings = HashMap::new();
        for plan in plans.filter(|plan| plan.is_listed) {
            let list = || SharedList::new(&self.runtime, self.list(&plan.request.name));
            listings.entry(plan.request.name.clone()).or_insert_with(list);
        }
        listings
    }

    /// Decides the changes of a request, from what is known when it is sent.
    fn plan(&self, request: Request) -> Plan {
        let (changes, is_listed) = match &request.action {
            Action::Join { nodes, is_listed } => (nodes.clone(), *is_listed),
            Action::Leave(nodes) => (nodes.clone(), false),
            Action::Behind { claim, declared, has_patience } => {
                let line = self.nodes.line(&request.name);
                let known = self.own_claims.waited_before(claim, *declared).filter(|_| *has_patience);
                // A claim that joins a semaphore without a look must join before a resize, or see it.
                let unwritten = known.filter(|_| claim.kind == Kind::Semaphore);
                let unwritten = unwritten.map(|version| Change::Unwritten(line.clone(), version));
                let nodes = self.nodes_of(claim, *declared, &line);
                (unwritten.into_iter().chain(nodes).collect(), known.is_none())
            }
        };
        Plan { request, changes, is_listed }
    }

    async fn answer(&self, flight: Flight) {
        let Flight { together, transaction, mut apart } = flight;
        match transaction {
            None => {}
            Some(transaction) => match transaction.await {
                Ok(made) => together.into_iter().zip(made).for_each(|(sent, made)| sent.answer(Ok(made))),
                // The server reports that one request failed, so nothing was done.
                Err(MultiWriteError::OperationFailed { .. }) => {
                    let failed = together.into_iter().map(|sent| sent.request).collect();
                    apart.extend(self.batcher.again(Way::Main, failed, |batch| self.send(batch).apart));
                }
                Err(error) => together.into_iter().for_each(|sent| sent.answer(Err(error.clone()))),
            },
        }
        for (sent, making) in apart {
            sent.answer(making.await);
        }
    }
}

impl Sent {
    fn answer(self, made: Result<Made, MultiWriteError>) {
        // A caller that no longer waits sends a leave, which finds the nodes.
        let _ = self.request.answer.send(Answer { made, listing: self.listing });
    }
}

/// The task that answers a batch. If a panic ends it, another takes over the queue. Otherwise nothing would be sent any
/// more.
struct Flying<'a>(&'a Arc<OpenSession>);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        let session = self.0;
        if let Some(flight) = session.batcher.go_on(Way::Main, |batch| session.send(batch)) {
            session.runtime.spawn(session.clone().fly(flight));
        }
    }
}
