//! Joins and leaves that come together go out together, as one transaction.
//!
//! The server writes each transaction to its disk, and has three threads pass it on: a crowd's costs what one costs.
//! A transaction fails as a whole, so if one part of it does, each is sent again by itself. Lists that were asked for
//! with a join go out right behind it: one round trip, as if it were alone.

use std::future::Future;
use std::sync::Arc;

use tidelock::{Batch, ClaimId, Errand, Name};
use tokio::sync::oneshot;
use zookeeper_client::{Error as Said, MultiWriteError, Stat};

use crate::link::{Asked, Change, Link, Made};
use crate::session::Desk;

/// How many go out at once: some hundred bytes each, and a packet may have a megabyte.
pub(crate) const MOST: usize = 100;

/// The children of a line.
pub(crate) type Listed = (Vec<String>, Stat);

/// A join, or a leave.
pub(crate) struct Part {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) what: What,
    pub(crate) answer: oneshot::Sender<Answer>,
}

pub(crate) enum What {
    /// These nodes are made, and the line is listed then, if that is wanted.
    Join { nodes: Vec<Change>, listed: Option<String> },
    /// These are deleted.
    Leave(Vec<Change>),
}

/// What has become of it.
pub(crate) struct Answer {
    pub(crate) made: Result<Made, MultiWriteError>,
    /// The list behind it, under way.
    pub(crate) listing: Option<Asked<Listed>>,
}

impl Errand for Part {
    fn name(&self) -> &Name {
        &self.name
    }

    fn is_join(&self) -> bool {
        matches!(self.what, What::Join { .. })
    }

    /// Whoever has gone does not stand in line; but whoever leaves does, whether he waits for the answer or not.
    fn is_wanted(&self) -> bool {
        !self.is_join() || !self.answer.is_closed()
    }
}

impl Part {
    fn changes(&self) -> &[Change] {
        let (What::Join { nodes, .. } | What::Leave(nodes)) = &self.what;
        nodes
    }

    fn list(&self, link: &Link) -> Option<Asked<Listed>> {
        match &self.what {
            What::Join { listed: Some(line), .. } => Some(link.list(line)),
            _ => None,
        }
    }
}

/// A batch that was sent.
struct Flight {
    together: Vec<Sent>,
    /// None: there was at most one, who went by itself.
    transaction: Option<Asked<Vec<Made>, MultiWriteError>>,
    apart: Vec<(Sent, Asked<Made, MultiWriteError>)>,
}

/// One of a batch, and the list behind it.
struct Sent {
    part: Part,
    listing: Option<Asked<Listed>>,
}

impl Desk {
    /// Has it done with whatever else is to be done. It is under way when this returns, or queues for what is.
    pub(crate) fn gather(
        self: &Arc<Self>,
        id: ClaimId,
        name: &Name,
        what: What,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let part = Part { id, name: name.clone(), what, answer };
        if let Some(flight) = self.lane.enter(part, |batch| self.send(batch)) {
            self.runtime.spawn(self.clone().fly(flight));
        }
        async move {
            // Retracted, or the keeper's runtime is no more.
            let given_up = || Answer { made: Err(Said::ClientClosed.into()), listing: None };
            answered.await.unwrap_or_else(|_| given_up())
        }
    }

    /// Answers a batch, and sends what came meanwhile, until nothing did.
    async fn fly(self: Arc<Self>, first: Flight) {
        let mut next = Some(first);
        while let Some(flight) = next {
            self.answer(flight).await;
            next = self.lane.go_on(|batch| self.send(batch));
        }
    }

    fn send(&self, mut batch: Batch<Part>) -> Flight {
        if batch.together.len() == 1 {
            batch.apart.splice(0..0, batch.together.drain(..));
        }
        let changes: Vec<&[Change]> = batch.together.iter().map(Part::changes).collect();
        let transaction = (!changes.is_empty()).then(|| self.link.make_all(&changes, self.nodes.root()));
        let together = batch.together.into_iter().map(|part| self.list_behind(part)).collect();
        Flight { together, transaction, apart: self.send_apart(batch.apart) }
    }

    fn send_apart(&self, parts: Vec<Part>) -> Vec<(Sent, Asked<Made, MultiWriteError>)> {
        let send = |part: Part| {
            let making = self.link.make(part.changes(), self.nodes.root());
            (self.list_behind(part), making)
        };
        parts.into_iter().map(send).collect()
    }

    fn list_behind(&self, part: Part) -> Sent {
        Sent { listing: part.list(&self.link), part }
    }

    async fn answer(&self, flight: Flight) {
        let Flight { together, transaction, mut apart } = flight;
        match transaction {
            None => {}
            Some(transaction) => match transaction.await {
                Ok(made) => together.into_iter().zip(made).for_each(|(sent, made)| sent.answer(Ok(made))),
                // The server has said that nothing was done, for the sake of one part.
                Err(MultiWriteError::OperationFailed { .. }) => {
                    let failed = together.into_iter().map(|sent| sent.part).collect();
                    apart.extend(self.lane.again(failed, |batch| self.send_apart(batch.apart)));
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
        // Whoever does not wait any more leaves, and finds what was made.
        let _ = self.part.answer.send(Answer { made, listing: self.listing });
    }
}
