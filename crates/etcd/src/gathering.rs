//! Joins and leaves that are made at the same time are sent as one transaction.
//!
//! Each of them is a transaction of its own inside it, with its own conditions: one that must not be carried out changes
//! nothing for the others. So a batch costs one round trip and one write to the members' disks. If the server refuses
//! the whole, and one of them may be to blame, each is sent again by itself. A server whose database is full may have
//! carried the whole out: then what is sent again may find nothing to do, and its outcome is unknown.
//!
//! Who was answered together is waited for, for a moment, before the next batch: whoever has just been let in often
//! leaves at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidelock_core::backend::{Batch, Batchable, Local as _};
use tidelock_core::{ClaimId, Name, Token};
use tokio::sync::oneshot;

use crate::lane::Lane;
use crate::line_view::LineView;
use crate::link::Failed;
use crate::open_session::OpenSession;
use crate::request::{Action, Answer, Request, UnderWay};
use crate::trouble::Blame;

/// A batch that is to be sent.
pub(crate) struct Flight {
    together: Vec<(Request, Txn)>,
    apart: Vec<(Request, Txn)>,
    /// Joins that must not be sent any more.
    taken_back: Vec<Request>,
}

impl Flight {
    fn crowd(&self) -> u64 {
        (self.together.len() + self.apart.len()) as u64
    }
}

/// A part of a batch under way.
type Sending<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl OpenSession {
    /// Sends a request together with others. When this returns, the request is under way, or queued behind the batch
    /// that is.
    pub(crate) fn gather(
        self: &Arc<Self>,
        id: ClaimId,
        name: &Name,
        action: Action,
    ) -> impl Future<Output = Result<Answer, Failed>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let is_join = matches!(action, Action::Join { .. });
        let request =
            Request { id, name: name.clone(), action, answer, next: None, under_way: None, doubt: None };
        let lane = match is_join {
            true => self.lanes.mine_for(&self.link, name),
            false => self.lanes.mine(&self.link),
        };
        // A join that nobody waits for leaves as void.
        let distrust = if is_join { None } else { lane.distrust(&self.runtime) };
        if let Some(flight) = lane.batcher.enter(request, |batch| self.plan(batch)) {
            lane.runtime.spawn(self.clone().fly(lane.clone(), flight));
        }
        let link = self.link.clone();
        async move {
            let distrusted = async {
                match distrust {
                    Some(distrust) => distrust.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // An error: it was retracted, or its runtime has ended.
                answer = answered => answer.unwrap_or_else(|_| Err(Failed::ended())),
                () = distrusted => Err(link.cut_off()),
            }
        }
    }

    /// Answers a batch, and sends the requests that came meanwhile, until the queue is empty.
    fn fly(self: Arc<Self>, lane: Arc<Lane>, first: Flight) -> impl Future<Output = ()> + Send {
        // Made before the task is polled: it may never be.
        let mut flying = Flying { session: self, lane, is_done: false };
        async move {
            let Flying { session, lane, is_done } = &mut flying;
            let mut next = Some(first);
            while let Some(flight) = next {
                let (crowd, arrived) = (flight.crowd(), lane.batcher.arrived());
                let began = Instant::now();
                session.send(lane, flight).await;
                lane.batcher.regather(crowd, arrived, began.elapsed()).await;
                if lane.is_broken() {
                    break; // the rest goes by the keeper's lane
                }
                next = lane.batcher.go_on(|batch| session.plan(batch));
            }
            *is_done = !lane.is_broken();
        }
    }

    /// A lane sends nothing any more. What waits there goes by the keeper's, before all that comes there from now on: it
    /// was asked before.
    fn takes_over(self: &Arc<Self>, lane: &Lane) {
        let keepers = self.lanes.keepers();
        for request in lane.batcher.hand_over() {
            if let Some(flight) = keepers.batcher.enter(request, |batch| self.plan(batch)) {
                keepers.runtime.spawn(self.clone().fly(keepers.clone(), flight));
            }
        }
    }

    /// Decides what each request sends, from what is known now.
    fn plan(self: &Arc<Self>, batch: Batch<Request>) -> Flight {
        // A join that was queued where nobody could take it back ends with the flight: here its caller would be woken while
        // the queue is locked.
        let mut taken_back = Vec::new();
        let mut plan = |mut request: Request| {
            if request.is_join() {
                let Some(under_way) = self.sets_out(&request) else {
                    taken_back.push(request);
                    return None;
                };
                request.under_way = Some(under_way);
            } else if request.id.session == self.id {
                request.next = self.own_claims.next(&request.name);
            }
            let (line, void) = (self.keys.line(&request.name), self.keys.void(request.id));
            let read = || {
                let prefix = || Some(GetOptions::new().with_prefix());
                vec![TxnOp::get(line.clone(), prefix()), TxnOp::get(void.clone(), None)]
            };
            let needs_no_read = self.own_claims.needs_no_read(&request.name, request.id);
            let next = request.next.map(|id| {
                TxnOp::get(self.keys.claim(&request.name, id), Some(GetOptions::new().with_prefix()))
            });
            let txn = request.txn(needs_no_read, read, next.as_ref());
            Some((request, txn))
        };
        let together = batch.together.into_iter().filter_map(&mut plan).collect();
        let apart = batch.apart.into_iter().filter_map(&mut plan).collect();
        Flight { together, apart, taken_back }
    }

    /// A join is sent now. None: it must not be.
    fn sets_out(self: &Arc<Self>, join: &Request) -> Option<UnderWay> {
        let (session, name, id) = (self.clone(), join.name.clone(), join.id);
        self.own_claims.may_be_sent(id).then(|| {
            UnderWay::until(move |place, is_sure| {
                let news = session.own_claims.is_answered(&name, id, place, is_sure);
                session.tell(&name, news);
            })
        })
    }

    fn send<'a>(self: &'a Arc<Self>, lane: &'a Arc<Lane>, flight: Flight) -> Sending<'a> {
        Box::pin(self.send_all(lane, flight))
    }

    async fn send_all(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        Flight { mut together, mut apart, taken_back }: Flight,
    ) {
        drop(taken_back);
        if together.len() == 1 {
            apart.splice(0..0, together.drain(..));
        }
        let mut sending = FuturesUnordered::<Sending<'_>>::new();
        if !together.is_empty() {
            let (requests, parts): (Vec<Request>, Vec<Txn>) = together.into_iter().unzip();
            let otherwise: Vec<_> = requests.iter().find_map(Request::first_change).into_iter().collect();
            let parts: Vec<_> = parts.into_iter().map(TxnOp::txn).collect();
            let whole = Txn::new().and_then(parts).or_else(otherwise);
            sending.push(Box::pin(async move {
                let answer = lane.transact(&self.link, whole).await;
                self.share(lane, requests, answer).await;
            }));
        }
        for (request, txn) in apart {
            sending.push(Box::pin(async move {
                let answer = lane.transact(&self.link, txn).await;
                self.answer(request, answer.map(|answer| (answer.clone(), revision(&answer))));
            }));
        }
        while sending.next().await.is_some() {}
    }

    async fn share(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        requests: Vec<Request>,
        answer: Result<TxnResponse, Failed>,
    ) {
        match answer {
            Ok(answer) => {
                let revision = revision(&answer);
                for (request, part) in requests.into_iter().zip(answer.op_responses()) {
                    let TxnOpResponse::Txn(part) = part else { continue };
                    self.answer(request, Ok((part, revision)));
                }
            }
            Err(failed) if failed.is_answered() => {
                let is_worth_it = |request: &Request| match failed.blame {
                    Blame::One => true,
                    Blame::Joins => !request.is_join(),
                    Blame::All => false,
                };
                let (mut requests, refused): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_worth_it);
                refused.into_iter().for_each(|request| self.answer(request, Err(failed.clone())));
                let joins = requests.iter_mut().filter_map(|request| request.under_way.take());
                joins.for_each(|join| join.arrives(None, true));
                if !failed.is_refused {
                    requests.iter_mut().for_each(|request| request.doubt = Some(failed.clone()));
                }
                let again = lane.batcher.again(requests, |batch| self.plan(batch));
                self.send(lane, again).await;
            }
            Err(failed) => {
                requests.into_iter().for_each(|request| self.answer(request, Err(failed.clone())));
            }
        }
    }

    /// Records what an answer says about its claim. A caller that no longer waits sends a leave.
    fn answer(self: &Arc<Self>, mut request: Request, answer: Result<(TxnResponse, i64), Failed>) {
        let has_next = request.next.is_some();
        let doubt = request.doubt.take();
        let answer = answer.map(|(part, revision)| Answer { doubt, ..Answer::of(&part, revision, has_next) });
        if let Some(join) = request.under_way.take() {
            let place = answer.as_ref().ok().filter(|answer| answer.is_done);
            let place = place.and_then(|answer| place_at(answer.revision));
            let is_sure = answer.as_ref().err().is_none_or(Failed::is_answered);
            join.arrives(place, is_sure);
            answer.iter().for_each(|answer| self.takes_in(&request, answer));
        } else if request.id.session == self.id && !request.is_join() {
            match &answer {
                // If nothing was deleted, it does not stand there either.
                Ok(answer) => self.has_left(&request, answer),
                Err(_) => self.own_claims.has_not_left(request.id),
            }
        }
        let _ = request.answer.send(answer);
    }

    fn has_left(self: &Arc<Self>, request: &Request, answer: &Answer) {
        let Request { id, name, next, .. } = request;
        let news = match next {
            Some(next) => {
                let place = answer.next_stands(*next);
                self.own_claims.left_before(name, *id, answer.revision, (*next, place))
            }
            None => self.own_claims.left(name, *id, Some(answer.revision)),
        };
        self.tell(name, news);
    }

    /// Of a crowd's joins the first one that waits has read the line. The next ones, which go out now, need not.
    fn takes_in(self: &Arc<Self>, request: &Request, answer: &Answer) {
        let view = answer.view(self.keys.line(&request.name).len());
        let waits = |view: &LineView| view.first().is_some_and(|first| first.id != request.id);
        if let Some(view) = view.filter(waits) {
            self.shows(&request.name, &view);
        }
    }
}

/// The place of a claim that was made at that revision, and its token.
pub(crate) fn place_at(revision: i64) -> Option<(u64, Token)> {
    let order = u64::try_from(revision).ok()?;
    Some((order, Token::from_order(order)?))
}

pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, etcd_client::ResponseHeader::revision)
}

/// The task that sends a lane's batches. If a panic, the end of its runtime or a broken connection ends it, another takes
/// over the queue. Otherwise nothing would be sent any more.
struct Flying {
    session: Arc<OpenSession>,
    lane: Arc<Lane>,
    is_done: bool,
}

impl Drop for Flying {
    fn drop(&mut self) {
        let Self { session, lane, is_done } = self;
        if *is_done {
            return;
        }
        if !lane.is_keepers() {
            session.takes_over(lane);
        } else if let Some(flight) = lane.batcher.go_on(|batch| session.plan(batch)) {
            session.runtime.spawn(session.clone().fly(lane.clone(), flight));
        }
    }
}
