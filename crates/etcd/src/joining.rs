//! Joining a line.
//!
//! One transaction makes the claim's keys, unless it stands already or is void, and reads the line, which shows whose turn
//! it is. If this client waits in that line already, its watch shows the line, and the transaction reads nothing. A claim
//! that cannot wait is made only if no other stands there, or if nothing has changed since the line was seen to have
//! room.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};
use tidelock_core::backend::{Claim, Grant, Leave, Patience, Place, Sleep};
use tidelock_core::{ClaimId, Error, ErrorKind, Name, Result, Weight};
use tidelock_model::ShownLine;

use crate::gathering::revision;
use crate::keys::SLOTS;
use crate::line_view::LineView;
use crate::link::Failed;
use crate::open_session::OpenSession;
use crate::own_claims::{JoinStart, Stage, Watched};
use crate::request::{Action, Answer};

/// How long a join waits for its watch to show its claim, before it reads the line.
const SHOWN_WITHIN: Duration = Duration::from_millis(250);

impl OpenSession {
    pub(crate) async fn join(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        match self.own_claims.begin(claim) {
            JoinStart::Void => Ok(Place::Gone),
            // Reads the line first, so nothing else tells.
            JoinStart::Asked if claim.weight > claim.capacity && self.is_void(claim).await? => {
                Ok(self.is_gone(claim))
            }
            JoinStart::Asked if patience == Patience::Now => self.stand_if_free(claim).await,
            // The size it declares counts only if it is the first.
            JoinStart::Asked if claim.weight > claim.capacity => self.stand_behind(claim).await,
            JoinStart::Asked => self.stand(claim).await,
        }
    }

    async fn stand(self: &Arc<Self>, claim: &Claim) -> Result<Place> {
        loop {
            let answer = self.make(claim, claim.capacity, self.is_new(claim), true).await?;
            if let Some(place) = self.answered(claim, Patience::Wait, answer).await? {
                return Ok(place);
            }
        }
    }

    /// A claim that asks for more than it declares stands in line only if another claim gives the line a larger size.
    async fn stand_behind(self: &Arc<Self>, claim: &Claim) -> Result<Place> {
        loop {
            let view = self.read_first(claim).await?;
            if view.find(claim.id).is_some() {
                return self.settle(claim, Patience::Wait, view.revision, Some(view)).await;
            }
            let (declared, first) = match self.size_for(claim, &view) {
                Ok(found) => found,
                Err(why) => return Err(self.turned_away(claim, why)),
            };
            let mut when = self.is_new(claim);
            when.push(self.stands_there(&claim.name, first));
            let answer = self.make(claim, declared, when, true).await?;
            if let Some(place) = self.answered(claim, Patience::Wait, answer).await? {
                return Ok(place);
            }
        }
    }

    /// A claim that cannot wait. Nothing of it is made unless it has its turn at once.
    async fn stand_if_free(self: &Arc<Self>, claim: &Claim) -> Result<Place> {
        let line = self.keys.line(&claim.name);
        let is_free =
            Compare::create_revision(format!("{line}0"), CompareOp::Equal, 0).with_range(format!("{line}g"));
        let mut seen: Option<LineView> = None;
        if claim.weight > claim.capacity {
            seen = Some(self.read_first(claim).await?);
        } else if self.busy.has(&claim.name)
            && let Some((view, is_void)) = self.read_here(claim).await?
        {
            if is_void {
                return Ok(self.is_gone(claim));
            }
            seen = Some(view);
        }
        if let Some(view) = seen.take_if(|view| view.find(claim.id).is_some()) {
            let revision = view.revision;
            if let Some(order) = view.place(claim.id) {
                self.is_found(claim, order).await?;
            }
            return self.settle(claim, Patience::Now, revision, Some(view)).await;
        }
        loop {
            if let Some(Err(why)) = seen.as_ref().map(may_be_used) {
                return Err(self.turned_away(claim, why));
            }
            let mut when = self.is_new(claim);
            let declared = match seen.filter(|view| !view.is_empty()) {
                None => {
                    if claim.weight > claim.capacity {
                        return Err(self.turned_away(claim, Error::too_heavy(claim.capacity)));
                    }
                    when.push(is_free.clone());
                    claim.capacity
                }
                Some(view) => {
                    let (declared, first) = match self.size_for(claim, &view) {
                        Ok(found) => found,
                        Err(why) => return Err(self.turned_away(claim, why)),
                    };
                    if !self.own_claims.shown(&view).has_room(claim.weight) {
                        let news = self.own_claims.nowhere(&claim.name, claim.id);
                        self.tell(&claim.name, news);
                        self.busy.note(&claim.name, true);
                        return Ok(Place::Refused);
                    }
                    when.push(self.stands_there(&claim.name, first));
                    let same = Compare::mod_revision(line.clone(), CompareOp::Less, view.revision + 1);
                    when.push(same.with_prefix());
                    declared
                }
            };
            let answer = self.make(claim, declared, when, false).await?;
            if answer.is_done {
                let order = answer.revision.unsigned_abs();
                self.busy.note(&claim.name, false);
                return self.holds(claim, order, declared).await;
            }
            if answer.is_void {
                return Ok(self.is_gone(claim));
            }
            let view = self.view(&claim.name, &answer).map_err(Error::perhaps_done)?;
            if let Some(order) = view.place(claim.id) {
                self.is_found(claim, order).await?;
                return self.settle(claim, Patience::Now, answer.revision, Some(view)).await;
            }
            let is_vacated = self.vacate(claim, &view).await?;
            seen = (!is_vacated).then_some(view); // otherwise as if the line were empty: the store says if not
        }
    }

    /// The size in use of a line that has claims, and its first claim. An error: the claim cannot stand there.
    fn size_for(&self, claim: &Claim, view: &LineView) -> Result<(Weight, ClaimId)> {
        may_be_used(view)?;
        let shown = self.own_claims.shown(view);
        match (shown.in_use(), shown.claims.first()) {
            (Some((kind, _)), _) if kind != claim.kind => Err(Error::other_kind(kind)),
            (Some((_, size)), _) if claim.weight > size => Err(Error::too_heavy(size)),
            (Some((_, size)), Some(first)) => Ok((size, first.id)),
            _ => Err(Error::too_heavy(claim.capacity)),
        }
    }

    /// What follows from the answer to a join. None: try again.
    async fn answered(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        answer: Answer,
    ) -> Result<Option<Place>> {
        let skip = self.keys.line(&claim.name).len();
        if answer.is_done {
            let view = answer.view(skip);
            return self.settle(claim, patience, answer.revision, view).await.map(Some);
        }
        if answer.is_void {
            return Ok(Some(self.is_gone(claim)));
        }
        let view = self.view(&claim.name, &answer).map_err(Error::perhaps_done)?;
        let Some(order) = view.place(claim.id) else {
            may_be_used(&view).map_err(|why| self.turned_away(claim, why))?;
            self.vacate(claim, &view).await?;
            return Ok(None);
        };
        self.is_found(claim, order).await?;
        self.settle(claim, patience, answer.revision, Some(view)).await.map(Some)
    }

    /// Takes out a claim of ours that stands in the slot of this one, and that core has forgotten. Returns whether there
    /// was any.
    async fn vacate(self: &Arc<Self>, claim: &Claim, view: &LineView) -> Result<bool> {
        let Some(other) = view.in_the_slot_of(claim.id) else { return Ok(false) };
        if self.own_claims.has_slot(other.number) {
            let wrong = format!("{SLOTS} claims of this client stand in one line already, and no more can");
            return Err(self.turned_away(claim, Error::new(ErrorKind::Unsupported, wrong)));
        }
        match self.clone().leave(claim.name.clone(), other, Leave::Done).await {
            Err(error) if !error.can_retry() => Err(self.turned_away(claim, error)),
            Err(error) => Err(error),
            Ok(_) => Ok(true),
        }
    }

    /// An earlier join has made the claim.
    async fn is_found(self: &Arc<Self>, claim: &Claim, order: u64) -> Result<()> {
        let Some(token) = tidelock_core::Token::from_order(order) else {
            return self.has_no_token(claim).await;
        };
        let news = self.own_claims.stands(&claim.name, claim.id, order, token);
        self.tell(&claim.name, news);
        Ok(())
    }

    async fn has_no_token(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        self.step_back(claim).await?;
        Err(Error::new(
            ErrorKind::Unsupported,
            "this etcd's revisions do not fit a token any more: they have more than 48 bits",
        ))
    }

    /// The line was empty, or had room and has not changed.
    async fn holds(self: &Arc<Self>, claim: &Claim, order: u64, capacity: Weight) -> Result<Place> {
        if tidelock_core::Token::from_order(order).is_none() {
            self.has_no_token(claim).await?;
        }
        Ok(match self.own_claims.hold(&claim.name, claim.id, order) {
            Some(token) => Place::Held { grant: Grant { token, capacity }, until: self.until() },
            None if self.own_claims.stage(claim.id) == Some(Stage::Nowhere) => self.is_gone(claim),
            None => Place::Gone, // it is leaving
        })
    }

    /// Makes the keys of a claim, if all of this is so.
    async fn make(
        self: &Arc<Self>,
        claim: &Claim,
        declared: Weight,
        when: Vec<Compare>,
        is_read: bool,
    ) -> Result<Answer> {
        let changes = self.puts(claim, declared);
        self.request(claim, Action::Join { when, changes, is_read }).await
    }

    async fn request(self: &Arc<Self>, claim: &Claim, action: Action) -> Result<Answer> {
        let answer = self.gather(claim.id, &claim.name, action).await;
        answer.map_err(|failed| match failed {
            Failed { error, is_refused: true, .. } => self.refused(claim, self.noted(error)),
            Failed { error, .. } if error.kind() == ErrorKind::Lost => self.noted(error),
            Failed { error, .. } => error.perhaps_done(), // also if it is of no kind that passes
        })
    }

    /// An error of a request that made no claim. Unless another attempt may find it where it stood, nobody asks for it
    /// any more, and no leave comes.
    fn refused(self: &Arc<Self>, claim: &Claim, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Lost => error,
            _ => self.turned_away(claim, error),
        }
    }

    pub(crate) fn puts(&self, claim: &Claim, declared: Weight) -> Vec<TxnOp> {
        let number = claim.id.number.to_string();
        let put = |key| TxnOp::put(key, &*number, Some(PutOptions::new().with_lease(self.lease_id())));
        self.keys.of_claim(claim, declared).into_iter().map(put).collect()
    }

    /// The claim neither stands nor is void, and its slot is empty.
    fn is_new(&self, claim: &Claim) -> Vec<Compare> {
        let own = Compare::create_revision(self.keys.claim(&claim.name, claim.id), CompareOp::Equal, 0);
        let void = Compare::create_revision(self.keys.void(claim.id), CompareOp::Equal, 0);
        vec![own.with_prefix(), void]
    }

    /// This claim stands in line.
    pub(crate) fn stands_there(&self, name: &Name, id: ClaimId) -> Compare {
        Compare::value(self.keys.claim(name, id), CompareOp::Equal, id.number.to_string()).with_prefix()
    }

    /// The line of this claim at that revision or later. None: it need not be known, as the claim surely waits.
    pub(crate) async fn line_at(
        self: &Arc<Self>,
        claim: &Claim,
        revision: i64,
    ) -> Result<Option<(LineView, ShownLine)>> {
        let late = self.clock.now() + SHOWN_WITHIN;
        loop {
            let stirred = self.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            if self.own_claims.waits_behind_own(claim, revision.unsigned_abs()) {
                return Ok(None);
            }
            match self.own_claims.seen_at(claim, revision) {
                Some(Watched::Waits) => return Ok(None),
                Some(Watched::Line(view, shown)) => return Ok(Some((view, shown))),
                None => {}
            }
            if self.clock.now() >= late || !self.own_claims.is_watched(&claim.name) {
                let view = self.read_again(claim).await?;
                let shown = self.own_claims.shown(&view);
                return Ok(Some((view, shown)));
            }
            tokio::select! {
                () = stirred => {}
                () = Sleep::until(&self.clock, late) => {}
            }
        }
    }

    /// Whether another client has made the claim void.
    async fn is_void(self: &Arc<Self>, claim: &Claim) -> Result<bool> {
        let (session, void) = (self.clone(), self.keys.void(claim.id));
        let count = GetOptions::new().with_count_only();
        let reading = self.runtime.spawn(async move { session.link.get(&void, count).await });
        let got = reading.await.unwrap_or_else(|_| Err(Failed::ended()));
        Ok(got.map_err(|failed| self.refused(claim, self.noted(failed.error)))?.count() > 0)
    }

    /// Reads a claim's line and whether it is void, on the calling runtime's own lane. None: it has none.
    async fn read_here(self: &Arc<Self>, claim: &Claim) -> Result<Option<(LineView, bool)>> {
        let lane = self.lanes.mine(&self.link);
        if lane.is_keepers() {
            return Ok(None);
        }
        let (line, all) = (self.keys.line(&claim.name), Some(GetOptions::new().with_prefix()));
        let gets = [TxnOp::get(line, all), TxnOp::get(self.keys.void(claim.id), None)];
        let read = lane.transact(&self.link, Txn::new().and_then(gets)).await;
        let read = read.map_err(|failed| self.refused(claim, self.noted(failed.error)))?;
        let answer = Answer::of(&read, revision(&read), false);
        let view = self.view(&claim.name, &answer).map_err(|error| self.refused(claim, error))?;
        Ok(Some((view, answer.is_void)))
    }

    /// Reads the line of a claim that is to join it.
    async fn read_first(self: &Arc<Self>, claim: &Claim) -> Result<LineView> {
        self.read_line(&claim.name).await.map_err(|error| self.refused(claim, error))
    }

    /// Reads a line, on the keeper's runtime.
    pub(crate) async fn read_line(self: &Arc<Self>, name: &Name) -> Result<LineView> {
        let (session, name) = (self.clone(), name.clone());
        let reading = self.runtime.spawn(async move {
            let line = session.keys.line(&name);
            let got = session.link.get(&line, GetOptions::new().with_prefix()).await?;
            let revision = got.header().map_or(0, etcd_client::ResponseHeader::revision);
            Ok(LineView::of(got.kvs(), line.len(), revision))
        });
        reading.await.unwrap_or_else(|_| Err(Failed::ended())).map_err(|failed| self.noted(failed.error))
    }

    /// The line that an answer shows.
    pub(crate) fn view(&self, name: &Name, answer: &Answer) -> Result<LineView> {
        answer.view(self.keys.line(name).len()).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, format!("{} left a part out of its answer", self.link.place()))
        })
    }

    /// An error that ends the session is told.
    pub(crate) fn noted(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Lost {
            self.signals.over();
        }
        error
    }

    pub(crate) fn turned_away(self: &Arc<Self>, claim: &Claim, why: Error) -> Error {
        let news = self.own_claims.nowhere(&claim.name, claim.id);
        self.tell(&claim.name, news);
        why
    }

    pub(crate) fn waits(&self) -> Place {
        Place::Waiting { until: self.until(), look_in: self.lease.ttl }
    }

    /// The claim was evicted already.
    pub(crate) fn is_gone(self: &Arc<Self>, claim: &Claim) -> Place {
        let news = self.own_claims.nowhere(&claim.name, claim.id);
        self.tell(&claim.name, news);
        Place::Gone
    }
}

/// Whether the keys there are ours.
pub(crate) fn may_be_used(view: &LineView) -> Result<()> {
    match &view.strange {
        None => Ok(()),
        Some(strange) => Err(Error::new(
            ErrorKind::Protocol,
            format!("{strange} is not a key of Tidelock: something else uses this prefix"),
        )),
    }
}
