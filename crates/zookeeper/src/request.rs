//! A join or a leave, as it is sent together with others, and its answer.

use std::future::Future;

use tidelock_core::backend::{Batchable, Claim};
use tidelock_core::{ClaimId, Name, Weight};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::{Change, Made};
use crate::listing::Listed;

/// A join, or a leave.
pub(crate) struct Request {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) action: Action,
    pub(crate) answer: oneshot::Sender<Answer>,
}

pub(crate) enum Action {
    /// Puts this claim in line behind others, declaring that size. The line is listed too, unless the claim has
    /// patience and another claim of ours waits before it.
    Behind { claim: Claim, declared: Weight, has_patience: bool },
    /// Creates these nodes, and lists the line if `is_listed`.
    Join { nodes: Vec<Change>, is_listed: bool },
    /// Deletes these nodes.
    Leave(Vec<Change>),
}

/// The result of a request.
pub(crate) struct Answer {
    pub(crate) made: Result<Made, MultiWriteError>,
    /// The list that was sent behind it, under way.
    pub(crate) listing: Option<SharedList>,
}

/// A list that several tasks wait for. A task of its own drives it, so one of them that is not polled does not delay
/// the others.
#[derive(Clone)]
pub(crate) struct SharedList(watch::Receiver<Option<Result<Listed, Said>>>);

impl SharedList {
    pub(crate) fn new(
        runtime: &Handle,
        asked: impl Future<Output = Result<Listed, Said>> + Send + 'static,
    ) -> Self {
        let (tell, told) = watch::channel(None);
        runtime.spawn(async move { tell.send_replace(Some(asked.await)) });
        Self(told)
    }

    pub(crate) async fn answered(mut self) -> Result<Listed, Said> {
        let answer = self.0.wait_for(Option::is_some).await.map(|answer| answer.clone());
        answer.ok().flatten().unwrap_or(Err(Said::ClientClosed)) // Err: the keeper's runtime has ended
    }
}

impl Batchable for Request {
    fn name(&self) -> &Name {
        &self.name
    }

    fn claim(&self) -> ClaimId {
        self.id
    }

    fn is_join(&self) -> bool {
        !matches!(self.action, Action::Leave(_))
    }

    /// A join whose caller is gone is not sent. A leave is always sent, even if nothing waits for its reply.
    fn is_wanted(&self) -> bool {
        !self.is_join() || !self.answer.is_closed()
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
        let listing = SharedList::new(&Handle::current(), asked);
        let mut lying = Box::pin(listing.clone().answered());
        assert!(lying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        answer.send(Err(Said::NoNode)).expect("it is waited for");
        let answer = tokio::time::timeout(Duration::from_secs(5), listing.answered()).await;
        assert_eq!(answer.expect("it was answered"), Err(Said::NoNode));
        assert_eq!(lying.await, Err(Said::NoNode));
    }
}
