//! Joins, leaves and changes that are made at the same time share a transaction, and so one write to the disk.
//!
//! One transaction of a lane is under way at a time; two of them would wait for each other's rows. What comes in the
//! meantime goes out together when it is answered. A transaction fails as a whole: then each of its requests is sent
//! again by itself.
//! Who was answered together is waited for, for a moment, before the next batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidelock_core::backend::{Batch, Batchable as _, Leave, Local as _, Moment, Place};
use tidelock_core::{Error, Name, Result};
use tokio::sync::oneshot;

use crate::lane::Lane;
use crate::open_session::{OpenSession, given_up};
use crate::request::{Action, Outcome, Request};

impl OpenSession {
    /// Sends a request together with others. When this returns, it is under way, or queued behind the batch that is.
    pub(crate) fn gather(
        self: &Arc<Self>,
        name: &Name,
        action: Action,
    ) -> impl Future<Output = Result<Outcome>> + Send + use<> {
        self.gather_in(&self.lanes.mine(), name, action)
    }

    /// The same, in this lane.
    pub(crate) fn gather_in(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        name: &Name,
        action: Action,
    ) -> impl Future<Output = Result<Outcome>> + Send + use<> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        // A join that nobody waits for leaves as void.
        let mut distrust = lane.distrust(&self.runtime);
        if let Action::Join { claim, .. } = &action {
            self.own_claims.queue(claim.id.number);
            distrust = None;
        }
        let (answer, answered) = oneshot::channel();
        let request = Request { name: name.clone(), action, answer };
        if let Some(batch) = lane.batcher.enter(request, |batch| self.taken(batch)) {
            lane.runtime.spawn(self.clone().fly(lane.clone(), batch));
        }
        let keepers = self.lanes.keepers.clone();
        async move {
            let distrusted = async {
                match distrust {
                    Some(distrust) => distrust.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = answered => answer.unwrap_or_else(|_| Err(given_up())),
                () = distrusted => Err(Error::no_answer(keepers.link.place())),
            }
        }
    }

    /// The requests of a batch, in the order in which they take effect.
    fn taken(self: &Arc<Self>, batch: Batch<Request>) -> Taken {
        let all = batch.together.into_iter().chain(batch.apart);
        let since = self.clock.now();
        let until = since + self.ttl * 2;
        let is_void = |request: &Request| {
            request.is_void(|number| !self.own_claims.sends(number, &request.name, until))
        };
        let (void, requests): (Vec<Request>, Vec<Request>) = all.partition(is_void);
        let joins = requests.iter().filter(|request| request.is_join()).map(|join| join.claim().number);
        let under_way = UnderWay { session: self.clone(), joins: joins.collect() };
        let requests = requests.into_iter().map(|request| self.without_need(request)).collect();
        Taken { requests, since, under_way, void: Void(void) }
    }

    /// A void leave keeps a late join out, by a row in the server. Whose joins were all answered needs none.
    fn without_need(&self, mut request: Request) -> Request {
        if let Action::Leave { id, how: how @ Leave::Void } = &mut request.action
            && id.session == self.id
            && self.own_claims.cannot_join_late(id.number)
        {
            *how = Leave::Done;
        }
        request
    }

    /// Carries out a batch, and what came meanwhile, until nothing comes any more.
    fn fly(self: Arc<Self>, lane: Arc<Lane>, first: Taken) -> impl Future<Output = ()> + Send {
        // Made before the task is polled: on a runtime that ends it never is.
        let mut flying = Flying { session: self, lane, next: Some(first), is_done: false };
        async move {
            let Flying { session, lane, next, is_done } = &mut flying;
            while next.is_some() {
                if lane.is_broken() {
                    return; // the rest goes by the keeper's lane
                }
                let Some(Taken { requests, since, under_way, void }) = next.take() else { break };
                drop(void);
                let (crowd, arrived) = (requests.len() as u64, lane.batcher.arrived());
                let began = Instant::now();
                session.carry_out(lane, requests, since).await;
                drop(under_way);
                lane.batcher.regather(crowd, arrived, began.elapsed()).await;
                *next = lane.batcher.go_on(|batch| session.taken(batch));
            }
            *is_done = true;
        }
    }

    /// These go by the keeper's lane, before all that comes there from now on: they were asked before.
    fn takes_over(self: &Arc<Self>, requests: impl Iterator<Item = Request>) {
        let keepers = &self.lanes.keepers;
        for request in requests {
            if let Some(batch) = keepers.batcher.enter(request, |batch| self.taken(batch)) {
                self.runtime.spawn(self.clone().fly(keepers.clone(), batch));
            }
        }
    }
}

/// The requests of a batch. From then on they count as sent, although the runtime that is to send them may stand still.
struct Taken {
    requests: Vec<Request>,
    since: Moment,
    under_way: UnderWay,
    void: Void,
}

/// Joins that are void by now. They are told when this is dropped, and not while the queue is locked: their wakers may run
/// anything.
struct Void(Vec<Request>);

impl Drop for Void {
    fn drop(&mut self) {
        for request in self.0.drain(..) {
            request.reply(Ok(Outcome::Joined(Place::Gone)));
        }
    }
}

/// Until this is dropped, these joins may be sent.
struct UnderWay {
    session: Arc<OpenSession>,
    joins: Vec<u64>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.session.own_claims.are_under_way_no_more(&self.joins);
    }
}

/// The task that carries out a lane's batches. If a panic, the end of its runtime or a broken connection ends it, the
/// keeper's lane takes over the queue. Otherwise nothing would be sent any more.
struct Flying {
    session: Arc<OpenSession>,
    lane: Arc<Lane>,
    /// The next batch, while none is under way.
    next: Option<Taken>,
    is_done: bool,
}

impl Drop for Flying {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let next = self.next.take().map(|taken| taken.requests).unwrap_or_default();
        for request in next.iter().filter(|request| request.is_join()) {
            self.session.own_claims.is_not_sent(request.claim().number);
        }
        let queued = self.lane.batcher.hand_over();
        if Arc::ptr_eq(&self.lane, &self.session.lanes.keepers) {
            drop(next); // the keeper's runtime ends too, and would drop them again
            self.session.takes_over(queued.into_iter());
        } else {
            self.session.takes_over(next.into_iter().chain(queued));
        }
    }
}
