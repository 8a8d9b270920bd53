//! All claims that one session has in the store: which ones stand, which ones wait, and when to look for them.
//!
//! A claim is entered before its join is sent and removed when it is over, so every signal from the store finds it
//! here by its id. Waiting claims are also kept by name, because one look serves all waiters of a name. A look is due
//! when a signal for that line has come, when its holder's lease ends, and in any case within a third of the ttl.

mod departed;
mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

pub(crate) use self::table::DueLook;
use self::table::{Table, scatter};
use crate::backend::{Claim, Clock, Grant, Left, Moment, Renewal, Reply, Shard, Sight, Signals};
use crate::standing::{Footing, Loss, Standing};
use crate::sync::{AtomicU64, Cell};
use crate::{ClaimId, Name, Options, Result, SessionId, Token};

#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) session: SessionId,
    clock: Arc<dyn Clock>,
    max_hold: Option<Duration>,
    warn_after: Duration,
    table: Cell<Table>,
    kept_until: Cell<BTreeMap<Shard, Moment>>,
    next_number: AtomicU64,
    /// Whether it is being closed, and whether it has ended.
    closing: AtomicBool,
    over: AtomicBool,
    /// When the keeper will look at lines by itself. A claim that needs it earlier nudges it.
    keeper_wakes: AtomicU64,
    /// When the keeper will check deadlines. A claim whose deadline is earlier nudges it.
    next_deadline: AtomicU64,
    /// When the keeper will renew everything.
    renews_at: Plain,
    /// What the keeper is to renew before that: a number of [`Wish`].
    wish: AtomicU8,
    /// Claims that have left, and stand in line all the same. The keeper is to give them back.
    strays: Cell<Vec<(Name, ClaimId)>>,
    /// Whether there is a stray of which no line is remembered. The keeper is to renew everything, which finds it.
    is_stray_unknown: AtomicBool,
    nudge: Notify,
    /// Notified of every renewal that was answered or failed.
    renewed: Notify,
    /// Notified of every claim that is removed while no more are entered.
    removed: Notify,
    /// The number of hints for each line; several lines share a counter. A hint may come before the answer to its
    /// join.
    hints: [AtomicU32; 64],
    /// A third of the ttl.
    third: Plain,
    /// A third of the ttl less the time limit of a look: the longest time without a look at a line.
    longest_wait: AtomicU64,
    /// By how much deadlines are shortened to allow for clock drift.
    margin: AtomicU64,
}

/// A number that loom does not have to track: a reader that misses a change sees it at the next renewal.
type Plain = std::sync::atomic::AtomicU64;

/// How soon a line may be looked at again if the ttl is long.
const SOONEST: Duration = Duration::from_millis(50);

/// What the keeper is to renew ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// All claims that have too little time left.
    RenewShort = 1,
    /// All claims: earlier reports of how long they live may be wrong by now.
    RenewAll = 2,
}

/// The standing claims of each shard, by name.
pub(crate) type Roll = BTreeMap<Shard, Vec<(Name, Vec<ClaimId>)>>;

impl Registry {
    pub(crate) fn new(session: SessionId, clock: Arc<dyn Clock>, options: &Options) -> Self {
        Self {
            session,
            clock,
            max_hold: options.max_hold,
            warn_after: options.warn_after,
            table: Cell::new(Table::default()),
            kept_until: Cell::new(BTreeMap::new()),
            next_number: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            over: AtomicBool::new(false),
            keeper_wakes: AtomicU64::new(0),
            next_deadline: AtomicU64::new(u64::MAX),
            renews_at: Plain::new(0),
            wish: AtomicU8::new(0),
            strays: Cell::new(Vec::new()),
            is_stray_unknown: AtomicBool::new(false),
            nudge: Notify::new(),
            renewed: Notify::new(),
            removed: Notify::new(),
            hints: [const { AtomicU32::new(0) }; 64],
            third: Plain::new(0),
            longest_wait: AtomicU64::new(0),
            margin: AtomicU64::new(0),
        }
    }

    /// Sets the ttl that the store granted.
    pub(crate) fn set_ttl(&self, ttl: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.third.store(nanos(ttl / 3), Ordering::Release);
        self.longest_wait.store(nanos(ttl / 10 * 3), Ordering::Release);
        self.margin.store(nanos(ttl / 500 + Duration::from_millis(5)), Ordering::Release);
    }

    /// A claim id that this session has not used before.
    pub(crate) fn next_id(&self) -> ClaimId {
        ClaimId { session: self.session, number: self.next_number.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Whether the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Enters a claim before anything is sent. Refuses it if the session has ended or is being closed.
    pub(crate) fn enter(&self, claim: Claim) -> Result<Arc<Standing>, Loss> {
        let number = claim.id.number;
        let heard = self.hints(&claim.name).load(Ordering::Acquire);
        let standing = Arc::new(Standing::new(claim, heard));
        self.table.lock().standing.insert(number, standing.clone());
        match self.ended() {
            // Checked only now: a sweep of the table sets the flag first, and may have missed this claim.
            Some(loss) if !seeded!("an_ended_session_is_entered") => {
                self.remove(number);
                standing.lose(loss);
                Err(loss)
            }
            _ => Ok(standing),
        }
    }

    fn ended(&self) -> Option<Loss> {
        match (self.is_over(), self.closing.load(Ordering::Acquire)) {
            (true, _) => Some(Loss::SessionOver),
            (false, true) => Some(Loss::Closed),
            (false, false) => None,
        }
    }

    /// A claim on its way out waits no more, but stays known until its leave is confirmed.
    pub(crate) fn stop_waiting(&self, number: u64) {
        self.table.lock().stop_waiting(number);
    }

    /// Removes a claim: nothing renews it or looks for it from now on.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Standing>> {
        let removed = self.table.lock().remove(number);
        self.tell_of_removals();
        removed
    }

    fn tell_of_removals(&self) {
        if self.closing.load(Ordering::Acquire) {
            self.removed.notify_waiters();
        }
    }

    /// The store keeps this claim until then.
    pub(crate) fn extend(&self, standing: &Standing, until: Moment) {
        standing.extend(until - self.margin());
    }

    fn margin(&self) -> Duration {
        Duration::from_nanos(self.margin.load(Ordering::Acquire))
    }

    fn third(&self) -> Duration {
        Duration::from_nanos(self.third.load(Ordering::Acquire))
    }

    /// Sets when the keeper will renew everything.
    pub(crate) fn renews_at(&self, at: Moment) {
        self.renews_at.store(at.as_nanos(), Ordering::Release);
    }

    /// Whether a claim that lives until then would have less than a third of the ttl left at the next renewal. Then
    /// it has to be renewed sooner.
    pub(crate) fn is_short(&self, until: Moment) -> bool {
        until < Moment::from_nanos(self.renews_at.load(Ordering::Acquire)) + self.third()
    }

    /// Whether the claim should be renewed before it is handed out at `at`.
    pub(crate) fn is_nearly_over(&self, standing: &Standing, at: Moment) -> bool {
        standing.kept_until() < at + self.third()
    }

    /// What the keeper was asked to renew ahead of time.
    pub(crate) fn take_wish(&self) -> Option<Wish> {
        match self.wish.swap(0, Ordering::AcqRel) {
            0 => None,
            1 => Some(Wish::RenewShort),
            _ => Some(Wish::RenewAll),
        }
    }

    /// The claims that the keeper is to give back, because the store has them although they have left.
    pub(crate) fn take_strays(&self) -> Vec<(Name, ClaimId)> {
        std::mem::take(&mut *self.strays.lock())
    }

    /// Whether there is a stray that only a renewal can find.
    pub(crate) fn take_unknown_stray(&self) -> bool {
        self.is_stray_unknown.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn wish(&self, wish: Wish) {
        self.wish.fetch_max(wish as u8, Ordering::AcqRel);
        self.nudge.notify_one();
    }

    /// Ready at the next renewal that is answered, fails or comes too late.
    pub(crate) fn next_renewal(&self) -> impl Future<Output = ()> {
        self.renewed.notified()
    }

    /// A join was answered: the claim waits, and a look is due in `look_in`.
    pub(crate) fn wait(&self, standing: &Arc<Standing>, look_in: Duration) {
        let now = self.now();
        standing.wait(now);
        self.reckon_with(standing);
        let mut table = self.table.lock();
        // A push may have come first; then the claim does not wait at all.
        if standing.stands() != Some(Footing::Waiting)
            || !table.standing.contains_key(&standing.claim.id.number)
        {
            return;
        }
        let name = &standing.claim.name;
        let missed_a_hint = self.hints(name).load(Ordering::Acquire) != standing.heard;
        let at = self.look_at(now, look_in, standing.claim.id.number);
        let mut at = table.start_waiting(name, standing.claim.id.number, at, self.warn_after);
        if missed_a_hint {
            table.look_now(name, now);
            at = now;
        }
        drop(table);
        self.wake_keeper_by(at);
    }

    /// A claim is held, by the answer to its join, a push or a look. Returns why not, if it is gone.
    pub(crate) fn hold(&self, standing: &Standing, grant: Grant) -> Option<Loss> {
        let latest = self.max_hold.map_or(Moment::NEVER, |max_hold| self.now() + max_hold);
        let loss = standing.hold(grant, latest);
        if !seeded!("a_hold_nudges_nobody") {
            self.reckon_with(standing);
        }
        loss
    }

    /// The names that are due for a look.
    pub(crate) fn due_looks(&self, now: Moment) -> Vec<DueLook> {
        self.table.lock().begin_looks(now, self.session)
    }

    /// Takes in the result of a look.
    pub(crate) fn saw(&self, name: &Name, sight: Sight) {
        for (id, grant) in sight.held {
            self.is_held(id, grant);
        }
        for id in sight.gone {
            self.gone(id);
        }
        let now = self.now();
        let next = |first| self.look_at(now, sight.look_in, first);
        let at = self.table.lock().end_look(name, now, next);
        self.wake_keeper_by(at.unwrap_or(Moment::NEVER));
    }

    /// A claim is held. Returns whether the claim is known.
    fn is_held(&self, id: ClaimId, grant: Grant) -> bool {
        let Some(standing) = self.table.lock().standing.get(&id.number).cloned() else { return false };
        self.hold(&standing, grant);
        // In this order: a concurrent `wait` enters the claim among the waiters unless it sees that it is held.
        self.table.lock().stop_waiting(id.number);
        true
    }

    /// All claims that are known to stand in the store, by the shard that each name is in at the moment. The claims
    /// whose time ends first come first. A store that cannot renew all of them in time leaves the rest for the next
    /// round, and by then a name that it fails at each time has come to the front.
    pub(crate) fn roll(&self, shard_of: impl Fn(&Name) -> Shard) -> Roll {
        let mut by_name: HashMap<Name, (Moment, Vec<ClaimId>)> = HashMap::new();
        for standing in self.table.lock().standing.values() {
            // Claims with a join under way are left out: the store may not know them yet, and must not report them
            // gone.
            if matches!(standing.stands(), Some(Footing::Waiting | Footing::Held)) {
                let (first, ids) =
                    by_name.entry(standing.claim.name.clone()).or_insert((Moment::NEVER, Vec::new()));
                *first = (*first).min(standing.kept_until());
                ids.push(standing.claim.id);
            }
        }
        let mut by_end: Vec<_> = by_name.into_iter().collect();
        by_end.sort_unstable_by_key(|(_, (first, _))| *first);
        let mut roll = Roll::new();
        for (name, (_, ids)) in by_end {
            roll.entry(shard_of(&name)).or_default().push((name, ids));
        }
        roll
    }

    /// Takes in the answer to a renewal of these claims.
    pub(crate) fn renewed(&self, shard: Shard, asked: &[(Name, Vec<ClaimId>)], renewal: &Renewal) {
        self.kept_until.lock().insert(shard, renewal.until);
        let until = renewal.until - self.margin();
        let gone: BTreeSet<ClaimId> = renewal.gone.iter().copied().collect();
        let unsure: BTreeSet<ClaimId> = renewal.unsure.iter().copied().collect();
        for standing in self.find_all(asked) {
            if gone.contains(&standing.claim.id) {
                self.gone(standing.claim.id);
            } else if unsure.contains(&standing.claim.id) {
                standing.shorten(until);
                standing.set_jeopardy(true);
            } else if standing.may_stand_anew(self.now()) {
                // The store may have renewed another stand of the claim than the one that its user was told of.
                standing.set_jeopardy(true);
            } else {
                standing.renew(until);
                standing.set_jeopardy(false);
            }
        }
        if !asked.is_empty() {
            // A store may grant a shorter ttl than before, so some deadline may be nearer now.
            self.next_deadline.fetch_min(until.as_nanos(), Ordering::AcqRel);
        }
        self.renewed.notify_waiters();
    }

    /// Until when the last renewal of this shard keeps the claims in it.
    pub(crate) fn kept_until(&self, shard: Shard) -> Moment {
        self.kept_until.lock().get(&shard).copied().unwrap_or(Moment::START)
    }

    /// When the first of these claims ends that still stand; if none does, when the session ends.
    pub(crate) fn first_end(&self, shard: Shard, asked: &[(Name, Vec<ClaimId>)]) -> Moment {
        let standing = self.find_all(asked).into_iter().filter(|standing| standing.stands().is_some());
        standing.map(|standing| standing.kept_until()).min().unwrap_or_else(|| self.kept_until(shard))
    }

    /// A renewal of these claims failed.
    pub(crate) fn in_jeopardy(&self, asked: &[(Name, Vec<ClaimId>)]) {
        for standing in self.find_all(asked) {
            standing.set_jeopardy(true);
        }
        self.renewed.notify_waiters();
    }

    /// Whether the claim belongs to this session and is not over.
    pub(crate) fn knows(&self, id: ClaimId) -> bool {
        id.session == self.session && self.table.lock().standing.contains_key(&id.number)
    }

    /// Removes and returns the claims that can no longer be trusted at `now`.
    pub(crate) fn overdue(&self, now: Moment) -> Vec<Arc<Standing>> {
        if now.as_nanos() < self.next_deadline.load(Ordering::Acquire) {
            return Vec::new();
        }
        // A claim that becomes held from now on, and that the loop below may have passed already, nudges.
        self.next_deadline.store(u64::MAX, Ordering::Release);
        let mut table = self.table.lock();
        let mut next = Moment::NEVER;
        let mut overdue = Vec::new();
        for standing in table.standing.values() {
            match standing.stands() {
                Some(Footing::Joining) | None => {}
                Some(_) if standing.due() <= now => overdue.push(standing.clone()),
                Some(_) => next = next.min(standing.due()),
            }
        }
        self.next_deadline.fetch_min(next.as_nanos(), Ordering::AcqRel);
        for standing in &overdue {
            table.remove(standing.claim.id.number);
        }
        drop(table);
        if !overdue.is_empty() {
            self.renewed.notify_waiters();
            self.tell_of_removals();
        }
        overdue
    }

    /// Removes and returns the claims whose acquire nobody polls any more, although the store may have granted them.
    pub(crate) fn left_lying(&self, now: Moment) -> Vec<Arc<Standing>> {
        let mut table = self.table.lock();
        let left: Vec<_> =
            table.standing.values().filter(|standing| standing.is_left_lying(now)).cloned().collect();
        for standing in &left {
            table.remove(standing.claim.id.number);
        }
        drop(table);
        self.tell_of_removals();
        left
    }

    /// Takes over the leaves whose users have not come back in time and may never do so.
    pub(crate) fn leaves_left_lying(&self, now: Moment) -> Vec<(Arc<Standing>, Reply<Left>)> {
        let table = self.table.lock();
        let laid_down = |standing: &Arc<Standing>| Some((standing.clone(), standing.take_up_leave(now)?));
        table.standing.values().filter_map(laid_down).collect()
    }

    /// The session is being closed: claims are refused from now on.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Claims are refused from now on, and those that do not hold yet are lost. Returns these, which the store may
    /// have, and those that hold.
    pub(crate) fn begin_draining(&self) -> (Vec<Arc<Standing>>, Vec<Arc<Standing>>) {
        self.begin_closing();
        let all: Vec<Arc<Standing>> = self.table.lock().standing.values().cloned().collect();
        let (mut turned_away, mut holding) = (Vec::new(), Vec::new());
        for standing in all {
            match standing.lose_unheld(Loss::Closed) {
                Some(_) => turned_away.push(standing),
                None if standing.stands().is_some() => holding.push(standing),
                None => {} // it is on its way out already
            }
        }
        let mut table = self.table.lock();
        for standing in &turned_away {
            table.stop_waiting(standing.claim.id.number);
        }
        (turned_away, holding)
    }

    /// Ready when every claim has left and its leave is confirmed. Call it only while no more are entered.
    pub(crate) async fn emptied(&self) {
        loop {
            let removed = self.removed.notified(); // listens from now on
            if self.table.lock().standing.is_empty() {
                return;
            }
            removed.await;
        }
    }

    /// Everything is over. Returns the claims that the store may still have.
    pub(crate) fn lose_all(&self, loss: Loss) -> Vec<Arc<Standing>> {
        let all = self.table.lock().clear();
        let lost = all.into_iter().filter(|standing| standing.lose(loss).is_some()).collect();
        self.renewed.notify_waiters(); // no renewal will come
        self.tell_of_removals();
        lost
    }

    /// The keeper is awake and does not know yet when it looks next: every new waiter nudges it.
    pub(crate) fn keeper_is_awake(&self) {
        self.keeper_wakes.store(u64::MAX, Ordering::Release);
    }

    /// The keeper will wake by itself at `at`, or earlier for the first look or deadline that is due.
    pub(crate) fn keeper_sleeps_until(&self, at: Moment) -> Moment {
        let at = self.table.lock().first_look().map_or(at, |due| at.min(due));
        self.keeper_wakes.store(at.as_nanos(), Ordering::Release);
        at.min(Moment::from_nanos(self.next_deadline.load(Ordering::Acquire)))
    }

    /// Waits until the keeper is needed earlier.
    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// Whether the last renewal of any of these claims failed or left it too little time.
    pub(crate) fn is_any_in_need(&self, asked: &[(Name, Vec<ClaimId>)]) -> bool {
        self.find_all(asked).iter().any(|standing| standing.is_in_jeopardy() || self.is_too_short(standing))
    }

    /// Whether too little time is left. Before the answer to its join that is not known.
    fn is_too_short(&self, standing: &Standing) -> bool {
        standing.kept_until() > Moment::START && self.is_short(standing.kept_until())
    }

    /// Those of these claims that hold, with their tokens, if an older join may have made them stand in the store
    /// anew.
    pub(crate) fn doubtful(&self, asked: &[(Name, Vec<ClaimId>)]) -> HashMap<Name, Vec<(ClaimId, Token)>> {
        let mut by_name: HashMap<Name, Vec<(ClaimId, Token)>> = HashMap::new();
        for standing in self.find_all(asked) {
            if let Some(token) = standing.doubtful() {
                by_name.entry(standing.claim.name.clone()).or_default().push((standing.claim.id, token));
            }
        }
        by_name
    }

    /// Those of these claims that are known.
    pub(crate) fn find<'a>(&self, ids: impl Iterator<Item = &'a ClaimId>) -> Vec<Arc<Standing>> {
        let table = self.table.lock();
        ids.filter_map(|id| table.standing.get(&id.number).cloned()).collect()
    }

    fn find_all(&self, asked: &[(Name, Vec<ClaimId>)]) -> Vec<Arc<Standing>> {
        self.find(asked.iter().flat_map(|(_, ids)| ids))
    }

    fn hints(&self, name: &Name) -> &AtomicU32 {
        // The names of one program mostly differ at their ends.
        let tail = name.as_bytes().iter().rev().take(8).fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        &self.hints[(scatter(tail) % 64) as usize]
    }

    /// Makes sure that the keeper is awake when this claim's time is over.
    fn reckon_with(&self, standing: &Standing) {
        if standing.due().as_nanos() < self.next_deadline.load(Ordering::Acquire) {
            self.next_deadline.store(0, Ordering::Release);
            self.nudge.notify_one();
        }
        if self.is_too_short(standing) {
            self.wish(Wish::RenewShort);
        }
    }

    fn wake_keeper_by(&self, at: Moment) {
        if at.as_nanos() < self.keeper_wakes.load(Ordering::Acquire) {
            self.nudge.notify_one();
        }
    }

    /// When to look: soon after the holder's lease ends, spread over a twentieth of it, and never later than the
    /// longest time without a look.
    fn look_at(&self, now: Moment, look_in: Duration, number: u64) -> Moment {
        let longest = Duration::from_nanos(self.longest_wait.load(Ordering::Acquire));
        let spread = (scatter(number ^ self.session.get()) >> 40) as f64 / (1_u64 << 24) as f64;
        // Guards against a store that always says "at once". A holder's ttl may be much shorter than ours.
        let look_in = look_in.max((longest / 100).min(SOONEST));
        if look_in < longest {
            now + look_in + (look_in / 20).mul_f64(spread)
        } else {
            now + longest - (longest / 10).mul_f64(spread)
        }
    }
}

impl Signals for Registry {
    fn held(&self, id: ClaimId, grant: Grant) {
        if id.session == self.session && !self.is_held(id, grant) {
            self.stray(id);
        }
    }

    fn stray(&self, id: ClaimId) {
        if id.session != self.session || self.knows(id) {
            return;
        }
        let line = self.table.lock().departed.line_of(id.number);
        match line {
            Some(name) => self.strays.lock().push((name, id)),
            None => self.is_stray_unknown.store(true, Ordering::Release),
        }
        self.nudge.notify_one();
    }

    fn gone(&self, id: ClaimId) {
        if id.session == self.session
            && let Some(standing) = self.remove(id.number)
        {
            standing.lose(Loss::NotInLine);
        }
    }

    fn look(&self, name: &Name) {
        self.hints(name).fetch_add(1, Ordering::AcqRel);
        let now = self.now();
        self.table.lock().look_now(name, now);
        self.wake_keeper_by(now);
    }

    fn look_everywhere(&self) {
        for hints in &self.hints {
            hints.fetch_add(1, Ordering::AcqRel);
        }
        let now = self.now();
        self.table.lock().look_everywhere(now);
        self.wake_keeper_by(now);
        self.wish(Wish::RenewAll);
    }

    fn over(&self) {
        self.over.store(true, Ordering::Release);
        self.lose_all(Loss::SessionOver);
        self.nudge.notify_one();
    }
}

#[cfg(all(test, not(tidelock_loom)))]
mod tests {
    use super::*;
    use crate::backend::boot_clock;
    use crate::{Kind, Weight};

    fn entered() -> (Registry, Arc<Standing>) {
        let registry = Registry::new(SessionId::from_bits(7), boot_clock(), &Options::new());
        registry.set_ttl(Duration::from_secs(15));
        let name = Name::new("m").expect("a good name");
        let claim = Claim::new(registry.next_id(), name, Kind::Mutex, Weight::ONE, Weight::ONE);
        let standing = registry.enter(claim).expect("open");
        (registry, standing)
    }

    fn grant(token: u64) -> Grant {
        Grant { token: Token::from_u64(token).expect("a small number"), capacity: Weight::ONE }
    }

    #[test]
    fn a_grant_to_a_claim_that_has_waited_and_left_has_it_given_back_and_renews_nothing() {
        let (registry, standing) = entered();
        registry.wait(&standing, Duration::from_secs(15));
        let (name, id) = (standing.claim.name.clone(), standing.claim.id);
        registry.held(id, grant(32));
        assert!(registry.take_strays().is_empty(), "it is ours");
        registry.remove(id.number);
        registry.held(id, grant(64));
        assert_eq!(registry.take_strays(), [(name, id)]);
        assert_eq!(registry.take_wish(), None);
    }

    #[test]
    fn a_stray_that_nobody_remembers_is_left_to_a_renewal() {
        let (registry, _standing) = entered();
        registry.held(ClaimId { session: registry.session, number: 1_000 }, grant(32));
        assert!(registry.take_unknown_stray() && registry.take_strays().is_empty());
        assert!(!registry.take_unknown_stray());
    }

    #[test]
    fn a_hint_before_the_joins_answer_is_not_lost() {
        let (registry, standing) = entered();
        registry.look(&standing.claim.name);
        registry.wait(&standing, Duration::from_secs(15));
        assert_eq!(registry.due_looks(registry.now()).len(), 1);
    }

    #[test]
    fn without_a_hint_a_look_is_due_within_a_third_of_the_ttl() {
        let (registry, standing) = entered();
        registry.wait(&standing, Duration::from_secs(15));
        assert!(registry.due_looks(registry.now()).is_empty());
        assert_eq!(registry.due_looks(registry.now() + Duration::from_secs(5)).len(), 1);
    }

    #[test]
    fn a_dead_holder_costs_its_own_ttl_however_long_the_waiters_is() {
        let (registry, standing) = entered();
        registry.set_ttl(Duration::from_secs(24 * 60 * 60));
        let second = Duration::from_secs(1);
        registry.wait(&standing, second);
        assert!(registry.due_looks(registry.now()).is_empty());
        assert_eq!(registry.due_looks(registry.now() + second * 11 / 10).len(), 1);
    }

    #[test]
    fn a_hint_during_a_look_is_followed_by_another() {
        let (registry, standing) = entered();
        registry.wait(&standing, Duration::from_secs(15));
        registry.look(&standing.claim.name);
        assert_eq!(registry.due_looks(registry.now()).len(), 1);
        registry.look(&standing.claim.name);
        assert!(registry.due_looks(registry.now()).is_empty(), "one look at a time");
        let nothing = Sight { held: Vec::new(), gone: Vec::new(), look_in: Duration::from_secs(15) };
        registry.saw(&standing.claim.name, nothing);
        assert_eq!(registry.due_looks(registry.now()).len(), 1);
    }

    #[test]
    fn a_hint_that_a_look_may_have_missed_is_followed_by_another() {
        let (registry, first) = entered();
        registry.wait(&first, Duration::from_secs(15));
        let claim = Claim { id: registry.next_id(), ..first.claim.clone() };
        let second = registry.enter(claim).expect("open");
        registry.look(&first.claim.name);
        assert_eq!(registry.due_looks(registry.now())[0].waiting, [first.claim.id]);
        registry.wait(&second, Duration::from_secs(15)); // its join was answered before the hint
        let nothing = Sight { held: Vec::new(), gone: Vec::new(), look_in: Duration::from_secs(15) };
        registry.saw(&first.claim.name, nothing);
        assert_eq!(registry.due_looks(registry.now())[0].waiting.len(), 2);
    }

    #[test]
    fn a_name_is_looked_at_once_at_a_time_while_waiters_come_and_go() {
        let (registry, first) = entered();
        registry.wait(&first, Duration::from_secs(15));
        registry.look(&first.claim.name);
        assert_eq!(registry.due_looks(registry.now()).len(), 1);
        registry.remove(first.claim.id.number);
        let claim = Claim { id: registry.next_id(), ..first.claim.clone() };
        let second = registry.enter(claim).expect("open");
        registry.wait(&second, Duration::from_secs(15));
        registry.look(&first.claim.name);
        assert!(registry.due_looks(registry.now()).is_empty(), "the first look is still under way");
    }

    #[test]
    fn a_claim_that_enters_while_the_session_is_closed_is_refused() {
        let (registry, standing) = entered();
        registry.begin_closing();
        assert_eq!(registry.lose_all(Loss::Closed).len(), 1);
        let claim = Claim { id: registry.next_id(), ..standing.claim.clone() };
        assert_eq!(registry.enter(claim).err(), Some(Loss::Closed));
    }

    #[test]
    fn a_deadline_that_comes_with_the_joins_answer_is_reckoned_with() {
        let (registry, standing) = entered();
        let grant = Grant { token: crate::Token::from_order(1).expect("small"), capacity: Weight::ONE };
        registry.held(standing.claim.id, grant); // pushed before the answer
        assert!(registry.overdue(registry.now()).is_empty());
        registry.extend(&standing, registry.now() + Duration::from_secs(1));
        registry.wait(&standing, Duration::from_secs(1));
        assert_eq!(registry.overdue(registry.now()).len(), 0);
        assert!(registry.keeper_sleeps_until(Moment::NEVER) <= standing.until());
        assert_eq!(registry.overdue(standing.until()).len(), 1);
    }

    #[test]
    fn what_a_late_join_may_have_stand_anew_is_not_renewed() {
        for is_answered in [true, false] {
            let (registry, standing) = entered();
            standing.ask();
            if is_answered {
                standing.answered();
            }
            standing.ask();
            standing.answered();
            registry.extend(&standing, registry.now()); // its time is over
            registry.wait(&standing, Duration::from_secs(15));
            let asked = [(standing.claim.name.clone(), vec![standing.claim.id])];
            let until = registry.now() + Duration::from_secs(15);
            let renewal = Renewal { until, gone: Vec::new(), unsure: Vec::new(), strays: Vec::new() };
            registry.renewed(Shard(0), &asked, &renewal);
            assert_eq!(registry.overdue(registry.now()).is_empty(), is_answered);
        }
    }
}
