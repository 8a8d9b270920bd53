//! Joins and leaves that come together go out together, as one transaction.
//!
//! The server writes each transaction to its disk, and has three threads pass it on: a crowd's costs what one costs.
//! A transaction fails as a whole, so if one part of it does, each is sent again by itself. A list that is wanted with a
//! join goes out right behind it: one round trip, as if it were alone; and one list of a name serves all who were sent
//! together. What a part asks for is decided when it is sent: in a crowd most have learnt by then that no list is needed.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tidelock::{Batch, Claim, ClaimId, Errand, Kind, Name, Weight};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use zookeeper_client::{Error as Said, MultiWriteError, Stat};

use crate::link::{Asked, Change, Made};
use crate::session::Desk;

/// How many go out at once: some hundred bytes each, and a packet may have a megabyte.
pub(crate) const MOST: usize = 100;

/// The children of a line, and what was known of our own claims when it was asked for.
pub(crate) type Listed = (Vec<String>, Stat, u64);

/// A join, or a leave.
pub(crate) struct Part {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) what: What,
    pub(crate) answer: oneshot::Sender<Answer>,
}

pub(crate) enum What {
    /// This claim stands in line behind others, declaring that size. The line is listed then; unless it has patience, and
    /// somebody of ours waits before it.
    Behind { claim: Claim, declared: Weight, has_patience: bool },
    /// These nodes are made, and the line is listed then, if that is wanted.
    Join { nodes: Vec<Change>, is_listed: bool },
    /// These are deleted.
    Leave(Vec<Change>),
}

/// What has become of it.
pub(crate) struct Answer {
    pub(crate) made: Result<Made, MultiWriteError>,
    /// The list behind it, under way.
    pub(crate) listing: Option<Listing>,
}

/// A list that several wait for. It comes by itself: one of them that is not polled any more keeps no other from it.
#[derive(Clone)]
pub(crate) struct Listing(watch::Receiver<Option<Result<Listed, Said>>>);

impl Listing {
    fn new(runtime: &Handle, asked: impl Future<Output = Result<Listed, Said>> + Send + 'static) -> Self {
        let (tell, told) = watch::channel(None);
        runtime.spawn(async move { tell.send_replace(Some(asked.await)) });
        Self(told)
    }

    pub(crate) async fn answered(mut self) -> Result<Listed, Said> {
        let answer = self.0.wait_for(Option::is_some).await.map(|answer| answer.clone());
        answer.ok().flatten().unwrap_or(Err(Said::ClientClosed)) // or the keeper's runtime is no more
    }
}

impl Errand for Part {
    fn name(&self) -> &Name {
        &self.name
    }

    fn is_join(&self) -> bool {
        !matches!(self.what, What::Leave(_))
    }

    /// Whoever has gone does not stand in line; but whoever leaves does, whether he waits for the answer or not.
    fn is_wanted(&self) -> bool {
        !self.is_join() || !self.answer.is_closed()
    }
}

/// A batch that was sent.
struct Flight {
    together: Vec<Sent>,
    /// None: there was at most one, who went by itself.
    transaction: Option<Asked<Vec<Made>, MultiWriteError>>,
    apart: Vec<(Sent, Asked<Made, MultiWriteError>)>,
}

/// What a part asks for.
struct Plan {
    part: Part,
    changes: Vec<Change>,
    is_listed: bool,
}

/// One of a batch, and the list behind it.
struct Sent {
    part: Part,
    listing: Option<Listing>,
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
        let flying = Flying(&self);
        let mut next = Some(first);
        while let Some(flight) = next {
            self.answer(flight).await;
            next = self.lane.go_on(|batch| self.send(batch));
        }
        std::mem::forget(flying);
    }

    fn send(&self, mut batch: Batch<Part>) -> Flight {
        if batch.together.len() == 1 {
            batch.apart.splice(0..0, batch.together.drain(..));
        }
        let planned: Vec<Plan> = batch.together.into_iter().map(|part| self.plan(part)).collect();
        let changes: Vec<&[Change]> = planned.iter().map(|plan| plan.changes.as_slice()).collect();
        let transaction = (!changes.is_empty()).then(|| self.link.make_all(&changes, self.nodes.root()));
        let apart: Vec<_> = batch.apart.into_iter().map(|part| self.send_one(part)).collect();
        let listings = self.list_behind(planned.iter().chain(apart.iter().map(|(plan, _)| plan)));
        let sent = |plan: Plan| {
            let listing = if plan.is_listed { listings.get(&plan.part.name).cloned() } else { None };
            Sent { part: plan.part, listing }
        };
        let together = planned.into_iter().map(sent).collect();
        Flight {
            together,
            transaction,
            apart: apart.into_iter().map(|(plan, making)| (sent(plan), making)).collect(),
        }
    }

    fn send_one(&self, part: Part) -> (Plan, Asked<Made, MultiWriteError>) {
        let plan = self.plan(part);
        let making = self.link.make(&plan.changes, self.nodes.root());
        (plan, making)
    }

    /// Once for each name, behind all who were sent.
    fn list_behind<'a>(&self, plans: impl Iterator<Item = &'a Plan>) -> HashMap<Name, Listing> {
        let mut listings = HashMap::new();
        for plan in plans.filter(|plan| plan.is_listed) {
            let list = || Listing::new(&self.runtime, self.list(&plan.part.name));
            listings.entry(plan.part.name.clone()).or_insert_with(list);
        }
        listings
    }

    /// What it asks for, as things are now that it is sent.
    fn plan(&self, part: Part) -> Plan {
        let (changes, is_listed) = match &part.what {
            What::Join { nodes, is_listed } => (nodes.clone(), *is_listed),
            What::Leave(nodes) => (nodes.clone(), false),
            What::Behind { claim, declared, has_patience } => {
                let line = self.nodes.line(&part.name);
                let known = self.books.waited_before(claim, *declared).filter(|_| *has_patience);
                // Whoever comes to a semaphore without a look has to come before a resize, or see it.
                let unwritten = known.filter(|_| claim.kind == Kind::Semaphore);
                let unwritten = unwritten.map(|version| Change::Unwritten(line.clone(), version));
                let nodes = self.nodes_of(claim, *declared, &line);
                (unwritten.into_iter().chain(nodes).collect(), known.is_none())
            }
        };
        Plan { part, changes, is_listed }
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
                    apart.extend(self.lane.again(failed, |batch| self.send(batch).apart));
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

/// What answers a batch. If it ends before its time, by a panic, another goes on with what queues: else nothing would be
/// sent any more.
struct Flying<'a>(&'a Arc<Desk>);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        let desk = self.0;
        if let Some(flight) = desk.lane.go_on(|batch| desk.send(batch)) {
            desk.runtime.spawn(desk.clone().fly(flight));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_that_nobody_polls_keeps_no_other_from_a_list() {
        let (answer, answered) = oneshot::channel();
        let asked = async { answered.await.unwrap_or(Err(Said::ClientClosed)) };
        let listing = Listing::new(&Handle::current(), asked);
        let mut lying = Box::pin(listing.clone().answered());
        assert!(lying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        answer.send(Err(Said::NoNode)).expect("it is waited for");
        let answer = tokio::time::timeout(Duration::from_secs(5), listing.answered()).await;
        assert_eq!(answer.expect("it was answered"), Err(Said::NoNode));
        assert_eq!(lying.await, Err(Said::NoNode));
    }
}
