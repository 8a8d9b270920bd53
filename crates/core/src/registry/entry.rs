//! The entry of one claim of this client, from before its join is sent until it has left.
//!
//! The stages are joining → waiting → held → gone, and never back. The join's reply, a pushed grant, a look, a
//! renewal and the keeper's deadline all report here, in any order. The first report that moves the claim on counts,
//! and `gone` is final. The deadline is kept apart, as a number that can be read without a lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};

use super::loss::Loss;
use crate::backend::{Claim, Grant, Kept, Leave, Left, Moment, Place, Reply};
use crate::shared_leave::SharedLeave;
use crate::sync::Mutex;
use crate::{ClaimId, Kind, Name, Token, Weight, shield, sync};

pub(crate) struct Entry {
    pub(crate) claim: Claim,
    /// What the store keeps for it.
    _kept: Option<Kept>,
    /// The number of hints for its line when it was entered.
    pub(crate) hints_at_entry: u32,
    /// When it began to wait.
    since: AtomicU64,
    /// Until when the store keeps it, less the margin for clock drift.
    until: AtomicU64,
    /// When this process heard of its grant, if anything depends on that.
    held_since: AtomicU64,
    /// Until when its user may hold it: `max_hold`.
    latest: AtomicU64,
    /// Its time is over, so nobody else gets the hold, whoever loses the claim a moment later.
    is_ending: AtomicBool,
    jeopardy: AtomicBool,
    /// Once it leaves: when the store has surely forgotten it, whatever becomes of its leave.
    gone_by: AtomicU64,
    /// When its user stops waiting for the answer to its join or its leave; 0 before the join is sent.
    over: AtomicU64,
    /// How many joins were sent, and how many of them were answered.
    asked: AtomicU32,
    answered: AtomicU32,
    /// It was lost while a join was being sent or about to be sent.
    lost_joining: AtomicBool,
    /// The store has told of a grant after it was gone.
    granted_late: sync::AtomicBool,
    /// Its leave was not answered at once.
    left_slowly: AtomicBool,
    /// The server that answers from now on may not know of its grant.
    doubted: AtomicBool,
    /// It was made lighter, and the server that answers from now on may not know that.
    lightened: AtomicBool,
    perhaps_heavy: AtomicBool,
    /// Who has to know at once when it is lost: those who stand in line behind it in this process.
    cohort: OnceLock<Weak<dyn Followers>>,
    life: Mutex<Life>,
    /// Its leave, while its user waits for the answer.
    pub(crate) leave: SharedLeave,
}

/// The stage of a claim, with what belongs to it.
enum Life {
    Joining(Option<Waker>),
    Waiting(Option<Waker>),
    /// `round` is the last round of renewals that had begun when the grant came. `over` has a bit for each pass of the
    /// hold that is given back.
    Held {
        grant: Grant,
        round: u64,
        over: u32,
        listeners: BTreeMap<u64, Listener>,
    },
    Gone(Loss),
}

/// The stage of a claim that is not gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Joining,
    Waiting,
    Held,
}

/// What a listener of a hold is woken by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// Its loss.
    Loss,
    /// Its loss, and every change between held and in jeopardy.
    Change,
}

/// Who waits for the end of a hold.
struct Listener {
    hears: Hears,
    /// Which pass of the hold; `None` for the claim, however often its hold is passed on.
    pass: Option<u32>,
    waker: Waker,
}

/// The news for a waiting claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Held(Grant),
    Gone(Loss),
}

/// Whether a claim like that is a reader's.
pub(crate) fn reads(kind: Kind, weight: Weight) -> bool {
    kind == Kind::RwLock && weight != Weight::MAX
}

/// Those who stand in line behind a claim in this process.
pub(crate) trait Followers: Send + Sync {
    /// The claim is lost. None of Tidelock's locks is held.
    fn are_without(self: Arc<Self>, claim: ClaimId, loss: Loss);
}

impl Entry {
    pub(crate) fn new(claim: Claim, kept: Option<Kept>, hints_at_entry: u32) -> Self {
        Self {
            claim,
            _kept: kept,
            hints_at_entry,
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
            held_since: AtomicU64::new(0),
            latest: AtomicU64::new(u64::MAX),
            is_ending: AtomicBool::new(false),
            jeopardy: AtomicBool::new(false),
            gone_by: AtomicU64::new(0),
            over: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            lost_joining: AtomicBool::new(false),
            granted_late: sync::AtomicBool::new(false),
            left_slowly: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            lightened: AtomicBool::new(false),
            perhaps_heavy: AtomicBool::new(false),
            cohort: OnceLock::new(),
            life: Mutex::new(Life::Joining(None)),
            leave: SharedLeave::new(),
        }
    }

    /// A claim of this session that the store has and this client does not know. It is to be given back.
    pub(crate) fn stray(id: ClaimId, name: Name) -> Self {
        Self::new(Claim::new(id, name, Kind::Mutex, Weight::ONE, Weight::ONE), None, 0)
    }

    /// Whether others of its kind may hold too.
    pub(crate) fn reads(&self) -> bool {
        reads(self.claim.kind, self.claim.weight)
    }

    /// Others of this process stand in line behind it from now on.
    pub(crate) fn leads(&self, followers: Weak<dyn Followers>) {
        let _ = self.cohort.set(followers); // the same ones, if it has any: a claim is in one line only
    }

    /// When this process heard of its grant, which may be long before its user did. [`Moment::START`] if nothing depends
    /// on it.
    pub(crate) fn held_since(&self) -> Moment {
        Moment::from_nanos(self.held_since.load(Ordering::Acquire))
    }

    /// Until when it can be trusted, never later than the store keeps it. [`Moment::START`] until that is known.
    pub(crate) fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Acquire).min(self.latest.load(Ordering::Acquire)))
    }

    /// When it ends if there is no further news. This also works for a claim that was granted before it is known how
    /// long the store keeps it.
    pub(crate) fn due(&self) -> Moment {
        let latest = Moment::from_nanos(self.latest.load(Ordering::Acquire));
        if self.kept_until() == Moment::START { latest } else { self.until() }
    }

    /// It leaves, and nothing renews it any more: the store forgets it by `moment` at the latest.
    pub(crate) fn leaves_by(&self, moment: Moment) {
        self.gone_by.fetch_max(moment.as_nanos(), Ordering::AcqRel);
    }

    /// When the store has surely forgotten it, if it is leaving.
    pub(crate) fn gone_by(&self) -> Moment {
        Moment::from_nanos(self.gone_by.load(Ordering::Acquire))
    }

    /// Its join or its leave is being sent, and its user waits for the answer until `over`.
    pub(crate) fn is_over_at(&self, over: Moment) {
        self.over.store(over.as_nanos(), Ordering::Release);
    }

    /// The time for its join is over, and its user has not noticed: its future is not polled. Its grant may have been
    /// told in the meantime.
    pub(crate) fn is_join_abandoned(&self, now: Moment) -> bool {
        self.is_given_up(now)
            && match self.stage() {
                Some(Stage::Joining) => true,
                Some(Stage::Held) => self.answered.load(Ordering::Relaxed) == 0,
                Some(Stage::Waiting) | None => false,
            }
    }

    /// Its leave is on its way to a store that takes time for it.
    pub(crate) fn leaves_slowly(&self) {
        self.left_slowly.store(true, Ordering::Release);
    }

    /// Whether another server may take over from the one that has confirmed its leave. A store that answers at once is
    /// none that fails over, and must not pay for the memory of those that are.
    pub(crate) fn has_left_slowly(&self) -> bool {
        self.left_slowly.load(Ordering::Acquire)
    }

    /// The store has told of a grant, although it is gone.
    pub(crate) fn granted_late(&self) {
        self.granted_late.swap(true, Ordering::AcqRel); // loom cannot order a plain store and the other swap
    }

    /// Whether the store has told of a grant after it was gone; each such grant counts once.
    pub(crate) fn take_late_grant(&self) -> bool {
        self.granted_late.swap(false, Ordering::AcqRel)
    }

    /// Takes its leave, if its user would have given up by now and has not come back. Before that the user may just
    /// be waiting to be woken.
    pub(crate) fn take_over_leave(&self, now: Moment) -> Option<Reply<Left>> {
        if self.is_given_up(now) && !seeded!("a_neglected_leave_is_nobodys") {
            self.leave.take_over()
        } else {
            None
        }
    }

    fn is_given_up(&self, now: Moment) -> bool {
        let over = self.over.load(Ordering::Acquire);
        over > 0 && over <= now.as_nanos()
    }

    /// Until when the store keeps it, as far as this client knows.
    pub(crate) fn kept_until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// The store keeps it until then. Answers that arrive out of order do no harm, because each is true by itself.
    pub(crate) fn extend(&self, until: Moment) {
        self.until.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// A renewal says that the store keeps it until then. This replaces earlier answers: the store may grant less
    /// than before. The answer to its join came before its first renewal, so nothing newer is overwritten.
    pub(crate) fn renew(&self, until: Moment) {
        self.until.store(until.as_nanos(), Ordering::Release);
    }

    /// The store keeps it until then at most, whether it was renewed or not.
    pub(crate) fn shorten(&self, until: Moment) {
        self.until.fetch_min(until.as_nanos(), Ordering::AcqRel);
    }

    /// Notes whether the last renewal failed.
    pub(crate) fn set_jeopardy(&self, jeopardy: bool) {
        if self.jeopardy.swap(jeopardy, Ordering::AcqRel) == jeopardy {
            return; // the usual case: nothing has changed
        }
        let told = match &mut *self.life.lock() {
            Life::Held { listeners, .. } => {
                let all = std::mem::take(listeners).into_iter();
                let (told, rest) = all.partition(|(_, listener)| listener.hears == Hears::Change);
                *listeners = rest; // those that are told come back with their next poll
                told
            }
            _ => BTreeMap::new(),
        };
        told.into_values().for_each(|told| shield::wake(told.waker)); // without the lock: a waker may run anything
    }

    pub(crate) fn is_in_jeopardy(&self) -> bool {
        self.jeopardy.load(Ordering::Acquire)
    }

    /// Whether the store has ever said that it waits.
    fn has_waited(&self) -> bool {
        self.since() != Moment::START
    }

    /// Whether a grant of it may come although it has left: it has waited, or may have waited when its user gave up.
    pub(crate) fn may_be_granted(&self) -> bool {
        self.has_waited() || self.how_to_leave() == Leave::Void
    }

    /// When it began to wait.
    pub(crate) fn since(&self) -> Moment {
        Moment::from_nanos(self.since.load(Ordering::Acquire))
    }

    /// A join is being sent.
    pub(crate) fn ask(&self) {
        count(&self.asked);
    }

    /// A join was answered.
    pub(crate) fn answered(&self) {
        count(&self.answered);
    }

    fn is_all_answered(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == self.answered.load(Ordering::Relaxed)
    }

    /// Whether its lease may have ended in the store and a late join may have arrived after that.
    pub(crate) fn may_stand_anew(&self, now: Moment) -> bool {
        let until = self.kept_until();
        !self.is_all_answered() && Moment::START < until && until <= now
    }

    /// Its token, if it holds and the store has to be asked whether it does. Another server may answer from now on. Or
    /// an older join of it may still be on its way: if the store has forgotten the claim, that join makes it stand
    /// there anew, where it does not hold, or holds under another token.
    pub(crate) fn doubtful(&self) -> Option<Token> {
        match &*self.life.lock() {
            Life::Held { grant, .. } if self.doubted.load(Ordering::Acquire) || !self.is_all_answered() => {
                Some(grant.token)
            }
            _ => None,
        }
    }

    /// Another server may answer from now on: one that does not know of its grant, or of its lighter weight.
    pub(crate) fn doubt(&self, is_one_of_many: bool) {
        self.doubted.fetch_or(is_one_of_many, Ordering::AcqRel);
        self.perhaps_heavy.fetch_or(self.lightened.load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// The store is being asked whether it holds.
    pub(crate) fn believe(&self) {
        self.doubted.store(false, Ordering::Release);
    }

    /// The store is being asked to make it lighter.
    pub(crate) fn lighten(&self) {
        self.lightened.store(true, Ordering::Release);
        self.perhaps_heavy.store(false, Ordering::Release);
    }

    /// The store may not have made it lighter.
    pub(crate) fn stays_heavy(&self) {
        self.perhaps_heavy.store(true, Ordering::Release);
    }

    /// Whether a server may answer that does not know that it was made lighter.
    pub(crate) fn is_perhaps_heavy(&self) -> bool {
        self.perhaps_heavy.load(Ordering::Acquire) && self.stage() == Some(Stage::Held)
    }

    /// How it has to leave. While one of its joins may still be on its way, only a void leave prevents that join from
    /// taking effect.
    pub(crate) fn how_to_leave(&self) -> Leave {
        match self.is_all_answered() && !self.lost_joining.load(Ordering::Acquire) {
            _ if seeded!("a_late_join_comes_alive") => Leave::Done,
            true => Leave::Done,
            false => Leave::Void,
        }
    }

    /// Its join was answered: it waits in line. A grant that was pushed before that answer stays.
    pub(crate) fn wait(&self, now: Moment) {
        self.since.store(now.as_nanos(), Ordering::Release);
        let mut life = self.life.lock();
        if let Life::Joining(waker) = &mut *life {
            *life = Life::Waiting(waker.take());
        } else if seeded!("an_answer_forgets_the_grant") {
            *life = Life::Waiting(None);
        }
    }

    /// Whether the answer to a repeated join contradicts what was pushed before: that grant may be over.
    pub(crate) fn contradicts(&self, place: &Place) -> bool {
        match (&*self.life.lock(), place) {
            (Life::Held { grant: pushed, .. }, Place::Held { grant, .. }) => grant.token != pushed.token,
            (Life::Held { .. }, _) => true,
            _ => false,
        }
    }

    /// It has its turn since `now`, and may be held until `latest`. The grant came before the renewals of all rounds
    /// after this one were sent. Returns why it is gone, if it is.
    pub(crate) fn hold(&self, grant: Grant, now: Moment, latest: Moment, round: u64) -> Option<Loss> {
        let mut life = self.life.lock();
        if seeded!("a_late_grant_revives") && matches!(&*life, Life::Gone(_)) {
            *life = Life::Waiting(None);
        }
        let waker = match &mut *life {
            Life::Joining(waker) | Life::Waiting(waker) => waker.take(),
            Life::Held { .. } => return None,
            Life::Gone(loss) => return Some(*loss),
        };
        self.held_since.store(now.as_nanos(), Ordering::Release);
        self.latest.store(latest.as_nanos(), Ordering::Release);
        *life = Life::Held { grant, round, over: 0, listeners: BTreeMap::new() };
        drop(life); // a waker may run anything
        if !seeded!("a_grant_wakes_nobody") {
            waker.into_iter().for_each(shield::wake);
        }
        None
    }

    /// Another user of this client holds it too or from now on, until `latest` at most. Returns whether it still holds.
    pub(crate) fn pass_on(&self, latest: Moment) -> bool {
        let life = self.life.lock();
        let holds = matches!(&*life, Life::Held { .. }) && !self.is_ending.load(Ordering::Acquire);
        if holds {
            self.latest.store(latest.as_nanos(), Ordering::Release);
        }
        holds
    }

    /// This pass of the hold is given back. Whoever listens for its end is woken.
    pub(crate) fn end_pass(&self, pass: u32) {
        let mut life = self.life.lock();
        let Life::Held { listeners, over, .. } = &mut *life else { return };
        *over |= 1 << pass;
        let all = std::mem::take(listeners).into_iter();
        let (told, rest): (BTreeMap<_, _>, _) = all.partition(|(_, listener)| listener.pass == Some(pass));
        *listeners = rest;
        drop(life); // a waker may run anything
        told.into_values().for_each(|told| shield::wake(told.waker));
    }

    /// Whether it holds, and this pass of the hold is not given back.
    #[cfg(tidelock_simulation)]
    pub(crate) fn is_in_pass(&self, pass: u32) -> bool {
        matches!(&*self.life.lock(), Life::Held { over, .. } if over & (1 << pass) == 0)
    }

    /// Whether it holds, and was known to hold before the renewals of this round were sent.
    pub(crate) fn held_before(&self, round: u64) -> bool {
        matches!(&*self.life.lock(), Life::Held { round: granted, .. } if *granted < round)
    }

    /// It is over. Returns what it was before, unless it was over already.
    pub(crate) fn lose(&self, loss: Loss) -> Option<Stage> {
        self.lose_if(loss, |_| true)
    }

    /// It is over unless it holds. Returns what it was before, unless it holds or was over already.
    pub(crate) fn lose_unheld(&self, loss: Loss) -> Option<Stage> {
        self.lose_if(loss, |life| !matches!(life, Life::Held { .. }))
    }

    fn lose_if(&self, loss: Loss, is_meant: impl FnOnce(&Life) -> bool) -> Option<Stage> {
        let mut life = self.life.lock();
        if matches!(&*life, Life::Gone(_)) && !seeded!("two_may_lose_a_claim") {
            return None;
        }
        if !is_meant(&life) {
            return None;
        }
        let before = std::mem::replace(&mut *life, Life::Gone(loss));
        drop(life); // a waker may run anything
        let (stage, waker, listeners) = match before {
            Life::Joining(waker) => (Stage::Joining, waker, BTreeMap::new()),
            Life::Waiting(waker) => (Stage::Waiting, waker, BTreeMap::new()),
            Life::Held { listeners, .. } => (Stage::Held, None, listeners),
            Life::Gone(_) => (Stage::Held, None, BTreeMap::new()),
        };
        if stage == Stage::Joining {
            self.lost_joining.store(true, Ordering::Release);
        }
        if loss != Loss::Left {
            shield::unharmed(|| self.log(stage, loss));
        }
        if seeded!("a_loss_wakes_nobody") {
            return Some(stage);
        }
        let listeners = listeners.into_values().map(|listener| listener.waker);
        waker.into_iter().chain(listeners).for_each(shield::wake);
        if loss != Loss::Left
            && let Some(followers) = self.cohort.get().and_then(Weak::upgrade)
        {
            followers.are_without(self.claim.id, loss);
        }
        Some(stage)
    }

    /// Logs every hold that ends against its user's will.
    fn log(&self, stage: Stage, loss: Loss) {
        let (name, reason) = (&self.claim.name, loss.reason());
        match (stage, loss) {
            (Stage::Held, Loss::Closed) => {
                tracing::debug!(lock.name = %name, loss = reason, "the lock was lost");
            }
            (Stage::Held, _) => tracing::warn!(lock.name = %name, loss = reason, "the lock was lost"),
            _ => tracing::debug!(lock.name = %name, loss = reason, "the place in line was lost"),
        }
    }

    /// Ready when it is held or gone.
    pub(crate) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<Turn> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut life = self.life.lock();
        let before = match &mut *life {
            Life::Joining(waker) | Life::Waiting(waker) => waker.replace(own),
            Life::Held { grant, .. } => return Poll::Ready(Turn::Held(*grant)),
            Life::Gone(loss) => return Poll::Ready(Turn::Gone(*loss)),
        };
        drop(life);
        drop(before); // may be the last handle of a task and drop all that the task holds
        Poll::Pending
    }

    /// Ready when it is gone, or this pass of its hold is given back. `listener` is the caller's number, from
    /// [`next_listener`].
    pub(crate) fn poll_lost(&self, pass: u32, listener: u64, cx: &mut Context<'_>) -> Poll<Loss> {
        self.poll_listening(Some(pass), listener, Hears::Loss, cx)
    }

    /// As [`Entry::poll_lost`]. Until then it wakes the listener at each change between held and in jeopardy too.
    pub(crate) fn poll_changed(&self, pass: u32, listener: u64, cx: &mut Context<'_>) -> Poll<Loss> {
        self.poll_listening(Some(pass), listener, Hears::Change, cx)
    }

    fn poll_listening(
        &self,
        pass: Option<u32>,
        listener: u64,
        hears: Hears,
        cx: &mut Context<'_>,
    ) -> Poll<Loss> {
        let own = cx.waker().clone(); // before the lock: it may run anything
        let mut life = self.life.lock();
        let before = match &mut *life {
            Life::Gone(loss) => return Poll::Ready(*loss),
            Life::Held { over, .. } if pass.is_some_and(|pass| *over & (1 << pass) != 0) => {
                return Poll::Ready(Loss::Left);
            }
            Life::Held { listeners, .. } => {
                listeners.insert(listener, Listener { hears, pass, waker: own }).map(|before| before.waker)
            }
            Life::Joining(_) if seeded!("a_loss_reaches_no_joiner") => None,
            Life::Joining(waker) | Life::Waiting(waker) => waker.replace(own), // its one user, whom a grant wakes too
        };
        drop(life);
        drop(before);
        Poll::Pending
    }

    /// This listener is no longer interested.
    pub(crate) fn forget(&self, listener: u64) {
        let mut life = self.life.lock();
        let before = match &mut *life {
            Life::Held { listeners, .. } => listeners.remove(&listener).map(|listener| listener.waker),
            Life::Joining(waker) => waker.take(), // otherwise its grant would wake the task that brings that grant
            _ => None,
        };
        drop(life);
        drop(before);
    }

    /// Listens for its loss, in whatever stage it is, until the result is dropped.
    pub(crate) fn listen(&self) -> LossListener<'_> {
        LossListener { entry: self, listener: next_listener() }
    }

    /// Whether its time is over at `now`, which is its `end`. Then it is not passed on any more.
    pub(crate) fn is_overdue(&self, now: Moment, end: impl Fn(&Self) -> Moment) -> bool {
        if end(self) > now {
            return false;
        }
        let life = self.life.lock(); // asked once more: a pass may just have moved its end
        let is_overdue = end(self) <= now || seeded!("a_pass_comes_after_the_end");
        self.is_ending.fetch_or(is_overdue, Ordering::AcqRel);
        drop(life);
        is_overdue
    }

    /// Why it is overdue at `now`.
    pub(crate) fn why_overdue(&self, now: Moment) -> Loss {
        if self.latest.load(Ordering::Acquire) <= now.as_nanos() { Loss::MaxHold } else { Loss::Deadline }
    }

    /// Why it is gone, if it is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match &*self.life.lock() {
            Life::Gone(loss) => Some(*loss),
            _ => None,
        }
    }

    /// Its stage; `None` when it is gone.
    pub(crate) fn stage(&self) -> Option<Stage> {
        match &*self.life.lock() {
            Life::Joining(_) => Some(Stage::Joining),
            Life::Waiting(_) => Some(Stage::Waiting),
            Life::Held { .. } => Some(Stage::Held),
            Life::Gone(_) => None,
        }
    }
}

/// Increments a counter that only the owner of the claim writes.
fn count(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A new number for a listener.
pub(crate) fn next_listener() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A listener for the loss of a claim.
pub(crate) struct LossListener<'a> {
    entry: &'a Entry,
    listener: u64,
}

impl LossListener<'_> {
    /// Ready when it is gone.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Loss> {
        self.entry.poll_listening(None, self.listener, Hears::Loss, cx)
    }
}

impl Drop for LossListener<'_> {
    fn drop(&mut self) {
        self.entry.forget(self.listener);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}, {:?} until {:?}", self.claim.id, self.claim.name, self.stage(), self.until())
    }
}
