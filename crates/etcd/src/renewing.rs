//! Renewals: one keep-alive, and the proof that it counted.
//!
//! A member passes a keep-alive to whom it takes for the leader, and a leader that the others have left answers it until it
//! notices. So a keep-alive is believed only if a read that is sent after it was answered is in the very term in which the
//! member passed the keep-alive on: then the leader of that term was in office all the time, and its clock is the one that
//! counts. Which member reads is all the same: a balancer may send each request to another one. A leader that is elected
//! later gives every lease its whole time again.
//!
//! On a slow network the two round trips would take too much of the ttl. Then the keep-alive is proved by the next
//! renewal, beside its own keep-alive: each renewal is one round trip, and says what the one before it was worth.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use etcd_client::{
    Compare, CompareOp, Error as Said, GetOptions, KeyValue, LeaseKeepAliveResponse, LeaseTimeToLiveOptions,
    ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidelock_core::backend::{Moment, Renewal, Sleep};
use tidelock_core::{ClaimId, Error, ErrorKind, Name, Result};

use crate::beat::{Beat, KeptAlive, Pulse};
use crate::gathering::revision;
use crate::keys::{LineKey, Slot, void_number};
use crate::line_view::LineView;
use crate::open_session::OpenSession;
use crate::trouble::{self, Blame};

/// How many claims one request looks for, and how many keys one deletes.
const MOST: usize = 100;
/// How many such requests are under way at once.
const AT_ONCE: usize = 16;

/// The keys on this session's lease.
#[derive(Debug, Default)]
struct OwnKeys {
    claims: BTreeSet<(Name, Slot)>,
    /// The lines that have this session's copy of a resize.
    sizes: BTreeSet<Name>,
}

/// What is read to prove a keep-alive.
struct Kept {
    voids: Vec<u64>,
    /// In which term that was.
    term: u64,
    absent: Vec<Absent>,
}

/// A claim of ours that does not stand in its slot.
struct Absent {
    name: Name,
    claim: ClaimId,
    /// The one that does: the store was restored from an older snapshot.
    other: Option<ClaimId>,
    at: i64,
}

impl OpenSession {
    pub(crate) async fn renew(self: &Arc<Self>, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        // Core gives up a renewal a little later, and it would count for nothing.
        let late = self.clock.now() + self.link.deadline().min(self.lease.ttl / 3) / 4 * 3;
        let looked_at = self.some_of(standing);
        // The list may be long, and its leader slow. A keep-alive that waited for it would not be proved in time.
        let ((until, absent), own) =
            tokio::try_join!(self.stay_alive(&looked_at, late), self.own_keys_by(late))?;
        self.renewed(until, own.as_ref(), absent, standing, late).await
    }

    /// Keeps the lease alive. Returns until when it lives for all that is proved, and those of these claims that do not
    /// stand in their slots.
    async fn stay_alive(
        self: &Arc<Self>,
        looked_at: &[(Name, ClaimId)],
        late: Moment,
    ) -> Result<(Moment, Vec<Absent>)> {
        let mut pulse = self.pulse.lock().await;
        let Pulse { beat, unproved } = &mut *pulse;
        // A new leader was elected meanwhile: ask again, in its term.
        for _ in 0..3 {
            let sent = self.clock.now();
            let earlier = *unproved;
            let before = async {
                match earlier {
                    Some(earlier) => self.prove(earlier, looked_at).await.map(|(_, absent)| absent),
                    None => Ok(Vec::new()),
                }
            };
            let keeping = async {
                let kept = KeptAlive::of(sent, &self.keep_alive(beat).await?);
                *unproved = Some(kept); // this call may end before the proof
                Ok::<_, Error>(kept)
            };
            let (kept, before) =
                tokio::join!(self.unless_late(keeping, late), self.unless_late(before, late));
            let before = before.unwrap_or_default();
            let kept = match kept {
                Err(error) if error.can_retry() && self.lease.has_news() => {
                    return Ok((self.until(), before));
                }
                kept => kept?,
            };
            let (now, left) = (self.clock.now(), self.until());
            if now.since(sent) > self.lease.ttl / 8 && left.since(now) > self.lease.ttl / 3 {
                return Ok((left, before));
            }
            let proof = self.unless_late(self.prove(kept, looked_at), late).await;
            if proof.is_ok() {
                *unproved = None;
            }
            match proof {
                // If this one does not count, an earlier one may, so this is a renewal all the same.
                Ok((is_proved, absent)) if is_proved || self.lease.has_news() => {
                    return Ok((self.until(), absent));
                }
                Err(error) if error.can_retry() && self.lease.has_news() => {
                    return Ok((self.until(), before));
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        let wrong = format!("{} changes its leader, so no renewal is certain yet", self.link.place());
        Err(Error::new(ErrorKind::Unavailable, wrong))
    }

    /// The keys on this session's lease. None: they are not known in time, and what is not known to be gone stands. An
    /// error: it is of a kind that does not pass.
    async fn own_keys_by(self: &Arc<Self>, late: Moment) -> Result<Option<OwnKeys>> {
        tokio::select! {
            biased;
            own = self.own_keys() => match own {
                Err(error) if !error.can_retry() => Err(error),
                own => Ok(own.ok()),
            },
            () = Sleep::until(&self.clock, late) => Ok(None),
        }
    }

    /// The answer to that, but nothing that comes late while there is news to tell: core would not hear of it.
    async fn unless_late<T>(&self, asking: impl Future<Output = Result<T>>, late: Moment) -> Result<T> {
        tokio::pin!(asking);
        tokio::select! {
            biased;
            answer = &mut asking => return answer,
            () = Sleep::until(&self.clock, late) => {}
        }
        if self.lease.has_news() { Err(Error::no_answer(self.link.place())) } else { asking.await }
    }

    /// Asks, after a keep-alive was answered, whether its leader was in office. If so, the lease lives as long as that
    /// keep-alive says.
    ///
    /// Beside it, returns those of these claims that do not stand in their slots.
    async fn prove(
        self: &Arc<Self>,
        kept: KeptAlive,
        looked_at: &[(Name, ClaimId)],
    ) -> Result<(bool, Vec<Absent>)> {
        let Kept { voids, term, absent } = self.kept_keys(looked_at).await?;
        let is_proved = kept.is_proved_in(term);
        if is_proved {
            self.lease.renewed(kept.sent);
            self.tidy(&voids);
        }
        Ok((is_proved, absent))
    }

    /// Opens the stream of keep-alives before the first renewal, which then takes no longer than the next ones.
    pub(crate) async fn warm_up(self: Arc<Self>) {
        let mut pulse = self.pulse.lock().await;
        pulse.beat = self.open_beat().await.ok(); // an error: a renewal opens it, and tells what is wrong
    }

    /// The lease lives until then. What is asked about some claims counts for these alone: they are asked about again.
    /// Without a list those that were not looked at count as standing, and the next renewals look.
    async fn renewed(
        self: &Arc<Self>,
        until: Moment,
        own: Option<&OwnKeys>,
        absent: Vec<Absent>,
        standing: &[(Name, Vec<ClaimId>)],
        late: Moment,
    ) -> Result<Renewal> {
        own.into_iter().for_each(|own| self.forget_sizes(own));
        let own = own.map(|own| &own.claims);
        let asked = standing.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name.clone(), *id)));
        let (there, missing): (Vec<_>, Vec<_>) = asked
            .partition(|(name, id)| own.is_none_or(|own| own.contains(&(name.clone(), Slot::from(*id)))));
        let known: BTreeSet<(Name, Slot)> = there.into_iter().map(|(name, id)| (name, id.into())).collect();
        let is_stray = |(name, slot): &&(Name, Slot)| !self.own_claims.is_in_use(name, slot.number);
        let slots: Vec<_> = own.into_iter().flat_map(|own| own.difference(&known)).filter(is_stray).collect();
        let (mut strays, (mut gone, unsure)) =
            tokio::join!(self.who_stands(&slots, late), self.not_there(&missing, late));
        for Absent { name, claim, other, at } in absent {
            strays.extend(other.map(|other| (name.clone(), other)));
            if gone.iter().all(|(_, gone, _)| *gone != claim) {
                gone.push((name, claim, at));
            }
        }
        for (name, id, at) in &gone {
            let news = self.own_claims.left(name, *id, Some(*at));
            self.tell(name, news);
        }
        self.lease.is_told(until);
        Ok(Renewal {
            until,
            gone: gone.into_iter().map(|(_, id, _)| id).collect(),
            unsure,
            missed: Vec::new(),
            waiting: Vec::new(), // only this client says which of its claims hold
            strays,
        })
    }

    async fn keep_alive(self: &Arc<Self>, beat: &mut Option<Beat>) -> Result<LeaseKeepAliveResponse> {
        let current = self.link.connection();
        let kept = beat.take().filter(|beat| Arc::ptr_eq(&beat.on, &current));
        let was_kept = kept.is_some();
        let mut asked = self.keep_alive_on(kept).await;
        // The stream may have ended by itself: its login is too old, or something between us dropped it.
        if was_kept && asked.as_ref().is_err_and(|error| error.kind() != ErrorKind::Timeout) {
            asked = self.keep_alive_on(None).await;
        }
        let (kept, answer) = match asked {
            Err(error) if error.kind() == ErrorKind::Lost => return Err(self.has_no_lease().await),
            asked => asked?,
        };
        self.link.shows(answer.header(), 0)?;
        if answer.ttl() <= 0 {
            return Err(self.has_no_lease().await);
        }
        *beat = Some(kept);
        Ok(answer)
    }

    /// One member says that there is no such lease. It may not know it yet, as it was just elected. The lease is over if the
    /// label, which lies on it, is gone for a majority.
    async fn has_no_lease(self: &Arc<Self>) -> Error {
        let label = self.keys.label(self.id);
        match self.link.get(&label, GetOptions::new().with_count_only()).await {
            Ok(found) if found.count() == 0 => self.noted(Error::session_over()),
            Ok(_) => {
                let wrong = format!("{} does not know this client's lease yet", self.link.place());
                Error::new(ErrorKind::Unavailable, wrong)
            }
            Err(failed) => self.noted(failed.error),
        }
    }

    async fn keep_alive_on(self: &Arc<Self>, kept: Option<Beat>) -> Result<(Beat, LeaseKeepAliveResponse)> {
        let Beat { mut keeper, mut answers, on } = match kept {
            Some(kept) => kept,
            None => self.open_beat().await?,
        };
        let asking = async {
            keeper.keep_alive().await?;
            let answer = answers.message().await?;
            answer.ok_or_else(|| Said::LeaseKeepAliveError("the stream ended".to_owned()))
        };
        let answer = self.link.answer(&on, asking).await?;
        Ok((Beat { keeper, answers, on }, answer))
    }

    async fn open_beat(self: &Arc<Self>) -> Result<Beat> {
        let id = self.lease_id();
        let (on, opened) =
            self.link.ask_on(|client| async move { client.lease_client().keep_alive(id).await }).await;
        let (keeper, answers) = opened?;
        Ok(Beat { keeper, answers, on })
    }

    /// The claims on this session's lease. The list of a lease has no pages, and the client library reads no more than
    /// 4 MiB of it. If it is longer, the keys of the namespace are read instead, page by page.
    async fn own_keys(self: &Arc<Self>) -> Result<OwnKeys> {
        let (id, keys) = (self.lease_id(), || Some(LeaseTimeToLiveOptions::new().with_keys()));
        let asking = self.link.ask(|client| async move {
            match client.lease_client().time_to_live(id, keys()).await {
                Err(said) if trouble::is_too_long(&said) => Ok(None),
                answer => answer.map(Some),
            }
        });
        let answer = match asking.await {
            Err(failed) if failed.error.kind() == ErrorKind::Lost => return Err(self.has_no_lease().await),
            answer => answer?,
        };
        let Some(answer) = answer else { return self.own_keys_among_all().await };
        self.link.shows(answer.header(), 0)?;
        if answer.ttl() < 0 {
            return Err(self.has_no_lease().await);
        }
        let mut own = OwnKeys::default();
        answer.keys().iter().for_each(|key| self.sort(key, &mut own));
        Ok(own)
    }

    async fn own_keys_among_all(self: &Arc<Self>) -> Result<OwnKeys> {
        let mut own = OwnKeys::default();
        self.each_page(|keys| keys.iter().for_each(|key| self.sort(key.key(), &mut own))).await?;
        Ok(own)
    }

    /// Notes what a key is, if it is one of this session's.
    fn sort(&self, key: &[u8], own: &mut OwnKeys) {
        let Some((name, rest)) = self.keys.take_apart(key) else { return };
        match LineKey::parse(rest) {
            Some(LineKey::Claim(claim)) if claim.slot.session == self.id => {
                own.claims.insert((name, claim.slot));
            }
            Some(LineKey::Resized(session)) if session == self.id => {
                own.sizes.insert(name);
            }
            _ => {}
        }
    }

    /// Deletes this session's copies of resizes in lines where it has no claim: its last ones may have left together, or
    /// were evicted.
    fn forget_sizes(self: &Arc<Self>, own: &OwnKeys) {
        if own.sizes.is_empty() {
            return;
        }
        let in_use: BTreeSet<&Name> = own.claims.iter().map(|(name, _)| name).collect();
        let idle: Vec<Name> = own.sizes.iter().filter(|name| !in_use.contains(name)).cloned().collect();
        let session = self.clone();
        self.runtime.spawn(async move {
            for name in idle {
                let (claims, size) =
                    (session.keys.claims(&name, session.id), session.keys.resized(&name, session.id));
                let nobody = Compare::create_revision(claims, CompareOp::Equal, 0).with_prefix();
                // A copy that stays is found by the next renewal.
                let _ = session
                    .link
                    .transact(Txn::new().when([nobody]).and_then([TxnOp::delete(size, None)]))
                    .await;
            }
        });
    }

    /// The void claims of this session that the store has keys for, in which term that is, and which keys are in the slots of these
    /// claims. The label lies beside the void claims, on the lease: if it is gone, so is the lease, whoever has kept it
    /// alive.
    async fn kept_keys(self: &Arc<Self>, looked_at: &[(Name, ClaimId)]) -> Result<Kept> {
        let voids = self.keys.voids(self.id);
        let all = || GetOptions::new().with_prefix();
        let in_slot = |(name, id): &(Name, ClaimId)| TxnOp::get(self.keys.claim(name, *id), Some(all()));
        let beside = TxnOp::get(&*voids, Some(all().with_keys_only()));
        let gets: Vec<TxnOp> = std::iter::once(beside).chain(looked_at.iter().map(in_slot)).collect();
        let answer = match self.link.transact(Txn::new().and_then(gets)).await {
            // Older versions refuse every transaction when their database is full. A read by itself is always answered,
            // and proves the keep-alive as well.
            Err(failed) if failed.blame == Blame::Joins => {
                let beside = self.link.get(&voids, all().with_keys_only()).await;
                let beside = beside.map_err(|failed| self.noted(failed.error))?;
                let term = beside.header().map_or(0, ResponseHeader::raft_term);
                return Ok(Kept { voids: self.voids_among(beside.kvs())?, term, absent: Vec::new() });
            }
            answer => answer.map_err(|failed| self.noted(failed.error))?,
        };
        let (at, term) = (revision(&answer), answer.header().map_or(0, ResponseHeader::raft_term));
        let mut parts = answer.op_responses().into_iter().filter_map(|part| match part {
            TxnOpResponse::Get(get) => Some(get),
            _ => None,
        });
        let beside = parts.next();
        let voids = self.voids_among(beside.as_ref().map_or(&[][..], |beside| beside.kvs()))?;
        let absent = looked_at.iter().zip(parts).filter_map(|((name, claim), found)| {
            let view = LineView::of(found.kvs(), self.keys.line(name).len(), at);
            // A claim that core knows has the slot rightly, since this renewal began.
            let other = view.in_the_slot_of(*claim).filter(|other| !self.own_claims.has_slot(other.number));
            let is_absent = found.kvs().is_empty() || other.is_some();
            is_absent.then(|| Absent { name: name.clone(), claim: *claim, other, at })
        });
        Ok(Kept { voids, term, absent: absent.collect() })
    }

    /// The void claims that these keys, which lie beside all lines, are of. An error: the label is not among them.
    fn voids_among(&self, keys: &[KeyValue]) -> Result<Vec<u64>> {
        let (voids, label) = (self.keys.voids(self.id), self.keys.label(self.id));
        if keys.iter().all(|key| key.key() != label.as_bytes()) {
            return Err(self.noted(Error::session_over()));
        }
        Ok(keys.iter().filter_map(|key| void_number(key.key(), &voids)).collect())
    }

    /// Some of these claims, by turns.
    fn some_of(&self, standing: &[(Name, Vec<ClaimId>)]) -> Vec<(Name, ClaimId)> {
        let count: usize = standing.iter().map(|(_, ids)| ids.len()).sum();
        let from = self.looked_at.fetch_add(MOST, Ordering::Relaxed) % count.max(1);
        let all = standing.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, *id)));
        let turn = all.cycle().skip(from).take(count.min(MOST));
        turn.map(|(name, id)| (name.clone(), id)).collect()
    }

    /// The claims that stand in these slots, as far as that is known in time.
    async fn who_stands(self: &Arc<Self>, slots: &[&(Name, Slot)], late: Moment) -> Vec<(Name, ClaimId)> {
        let ask = |page| async move {
            let get = |(name, slot): &&(Name, Slot)| {
                TxnOp::get(self.keys.claim(name, *slot), Some(GetOptions::new().with_prefix()))
            };
            self.asked_about(page, get).await
        };
        let mut claims = Vec::new();
        for (page, answer) in in_pages(slots, ask, Sleep::until(&self.clock, late)).await {
            for ((name, _), part) in page.iter().zip(answer.op_responses()) {
                if let TxnOpResponse::Get(get) = part {
                    let view = LineView::of(get.kvs(), self.keys.line(name).len(), 0);
                    claims.extend(view.each().map(|(_, standing)| (name.clone(), standing.id)));
                }
            }
        }
        claims
    }

    /// Those of these claims that do not stand there, and at which revision; and those of which that is not known in time.
    /// The leader that lists a lease's keys may be a moment behind.
    async fn not_there(
        self: &Arc<Self>,
        claims: &[(Name, ClaimId)],
        late: Moment,
    ) -> (Vec<(Name, ClaimId, i64)>, Vec<ClaimId>) {
        let ask = |page| async move {
            let get = |(name, id): &(Name, ClaimId)| {
                let count = GetOptions::new().with_prefix().with_count_only();
                TxnOp::get(self.keys.claim(name, *id), Some(count))
            };
            self.asked_about(page, get).await
        };
        let mut unsure: BTreeSet<ClaimId> = claims.iter().map(|(_, id)| *id).collect();
        let mut gone = Vec::new();
        for (page, answer) in in_pages(claims, ask, Sleep::until(&self.clock, late)).await {
            let counts = answer.op_responses().into_iter().map(|part| match part {
                TxnOpResponse::Get(get) => get.count(),
                _ => 1,
            });
            let revision = revision(&answer);
            for ((name, id), count) in page.iter().zip(counts) {
                unsure.remove(id);
                if count == 0 {
                    gone.push((name.clone(), *id, revision));
                }
            }
        }
        (gone, unsure.into_iter().collect())
    }

    /// One page, and the answer about it. None: it failed, and the next renewal asks again.
    async fn asked_about<'a, T>(
        self: &Arc<Self>,
        page: &'a [T],
        get: impl Fn(&T) -> TxnOp,
    ) -> Option<(&'a [T], TxnResponse)> {
        let gets: Vec<_> = page.iter().map(get).collect();
        Some((page, self.link.transact(Txn::new().and_then(gets)).await.ok()?))
    }

    /// Deletes the keys of void claims of which no join can arrive any more. An operator's eviction makes such keys too.
    fn tidy(self: &Arc<Self>, voids: &[u64]) {
        let now = self.clock.now();
        voids.iter().for_each(|number| self.own_claims.void_is_kept(*number, now));
        let outdated = self.own_claims.outdated_voids(now, self.lease.ttl);
        if outdated.is_empty() {
            return;
        }
        let session = self.clone();
        self.runtime.spawn(async move {
            for page in outdated.chunks(MOST) {
                let void = |number: &u64| session.keys.void(ClaimId { session: session.id, number: *number });
                let deletes: Vec<_> = page.iter().map(|number| TxnOp::delete(void(number), None)).collect();
                // A key that stays is found by the next renewal.
                let _ = session.link.transact(Txn::new().and_then(deletes)).await;
            }
        });
    }
}

/// Asks about all of these, page by page and several pages at once, until it is late.
async fn in_pages<'a, T, F, A>(
    all: &'a [T],
    ask: impl Fn(&'a [T]) -> F,
    late: impl Future<Output = ()>,
) -> Vec<(&'a [T], A)>
where
    F: Future<Output = Option<(&'a [T], A)>>,
{
    let mut pages = all.chunks(MOST);
    let mut asking: FuturesUnordered<F> = pages.by_ref().take(AT_ONCE).map(&ask).collect();
    let mut answers = Vec::new();
    tokio::pin!(late);
    loop {
        tokio::select! {
            biased;
            next = asking.next() => match next {
                Some(answer) => {
                    answers.extend(answer);
                    asking.extend(pages.next().map(&ask));
                }
                None => return answers,
            },
            () = &mut late => return answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn what_is_known_when_it_is_late_counts() {
        let all: Vec<usize> = (0..MOST * (AT_ONCE + 3)).collect();
        let ask = |page: &'static [usize]| async move {
            match page[0] / MOST {
                0 => pending().await,
                1 => None, // it failed
                _ => Some((page, ())),
            }
        };
        let answers = in_pages(all.leak(), ask, ready(())).await;
        let pages: BTreeSet<usize> = answers.iter().map(|(page, ())| page[0] / MOST).collect();
        assert_eq!(pages, (2..AT_ONCE + 3).collect());
    }
}
