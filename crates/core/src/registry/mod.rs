//! All claims that one session has in the store: which ones stand, which ones wait, and when to look for them.
//!
//! A claim is entered before its join is sent and removed when it is over, so every signal from the store finds it
//! here by its id. Waiting claims are also kept by name, because one look serves all waiters of a name. A look is due
//! when a signal for that line has come, when its holder's lease ends, and in any case within a third of the ttl.

mod departed;
mod entry;
mod hints;
mod loss;
mod over;
mod renewals;
mod scatter;
mod signals;
mod strays;
mod table;
#[cfg(all(test, not(tidelock_loom)))]
mod tests;
mod ttl;
mod wake_ups;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

pub(crate) use self::entry::{Entry, Followers, LossListener, Stage, Turn, next_listener, reads};
use self::hints::Hints;
pub(crate) use self::loss::Loss;
pub(crate) use self::over::Over;
pub(crate) use self::renewals::{ClaimsByShard, Standing};
use self::strays::Strays;
pub(crate) use self::table::DueLook;
use self::table::Table;
use self::ttl::Ttl;
pub(crate) use self::wake_ups::{EarlyRenewal, WakeUps};
use crate::backend::{Claim, Clock, Grant, Kept, Left, Moment, Reply, Shard, Sight, Signals};
use crate::sync::{AtomicU64, Mutex};
use crate::{ClaimId, Name, Options, Result, SessionId};

#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) session: SessionId,
    clock: Arc<dyn Clock>,
    max_hold: Option<Duration>,
    /// Whether holds are passed on.
    lingers: bool,
    warn_after: Duration,
    table: Mutex<Table>,
    kept_until: Mutex<BTreeMap<Shard, Moment>>,
    /// How many rounds of renewals have begun.
    rounds: std::sync::atomic::AtomicU64,
    next_number: AtomicU64,
    /// Whether it is being closed, and whether it has ended.
    closing: AtomicBool,
    pub(crate) over: Over,
    /// Whether the store was asked to end it before all leaves were answered.
    overtakes: AtomicBool,
    surely_over_at: std::sync::atomic::AtomicU64,
    /// Notified of every renewal that was answered or failed.
    renewed: Notify,
    /// Notified of every claim that is removed while no more are entered.
    removed: Notify,
    hints: Hints,
    ttl: Ttl,
    pub(crate) strays: Strays,
    pub(crate) wake_ups: WakeUps,
}

impl Registry {
    pub(crate) fn new(session: SessionId, clock: Arc<dyn Clock>, options: &Options) -> Self {
        Self {
            session,
            clock,
            max_hold: options.max_hold,
            lingers: !options.linger.is_zero(),
            warn_after: options.warn_after,
            table: Mutex::new(Table::default()),
            kept_until: Mutex::new(BTreeMap::new()),
            rounds: std::sync::atomic::AtomicU64::new(0),
            next_number: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            over: Over::default(),
            overtakes: AtomicBool::new(false),
            surely_over_at: std::sync::atomic::AtomicU64::new(u64::MAX),
            renewed: Notify::new(),
            removed: Notify::new(),
            hints: Hints::new(),
            ttl: Ttl::new(),
            strays: Strays::new(),
            wake_ups: WakeUps::new(),
        }
    }

    /// Sets the ttl that the store granted.
    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.ttl.set(ttl);
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
        self.over.is_set()
    }

    /// Enters a claim before anything is sent. Refuses it if the session has ended or is being closed.
    pub(crate) fn enter(&self, claim: Claim, kept: Option<Kept>) -> Result<Arc<Entry>, Loss> {
        let number = claim.id.number;
        let hints = self.hints.number(&claim.name);
        let entry = Arc::new(Entry::new(claim, kept, hints));
        self.table.lock().entries.insert(number, entry.clone());
        match self.ended() {
            // Checked only now: a sweep of the table sets the flag first, and may have missed this claim.
            Some(loss) if !seeded!("an_ended_session_is_entered") => {
                self.remove(number);
                entry.lose(loss);
                Err(loss)
            }
            _ => Ok(entry),
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
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Entry>> {
        let removed = self.table.lock().remove(number);
        removed.iter().for_each(|entry| self.has_left(entry));
        self.tell_of_removals();
        removed
    }

    /// The leave of a claim is confirmed, or given up. If it was granted meanwhile, the grant may be another server's,
    /// which does not know of the leave: the claim leaves once more.
    pub(crate) fn has_left(&self, entry: &Entry) {
        if entry.take_late_grant() {
            self.strays.add(entry.claim.id, Some(entry.claim.name.clone()));
            self.wake_ups.nudge();
        }
    }

    /// The store has told that this claim, which is gone, stands there.
    pub(crate) fn stands_there(&self, entry: &Entry) {
        entry.granted_late();
        if !self.knows(entry.claim.id) {
            self.has_left(entry); // its leave was confirmed in between
        }
    }

    fn tell_of_removals(&self) {
        if self.closing.load(Ordering::Acquire) {
            self.removed.notify_waiters();
        }
    }

    /// The store keeps this claim until then.
    pub(crate) fn extend(&self, entry: &Entry, until: Moment) {
        entry.extend(until - self.ttl.margin());
    }

    /// Whether a claim that lives until then would have less than a third of the ttl left at the next renewal. Then
    /// it has to be renewed sooner.
    pub(crate) fn is_short(&self, until: Moment) -> bool {
        !seeded!("renewals_go_by_the_period") && until < self.wake_ups.next_renewal() + self.ttl.third()
    }

    /// Whether the claim should be renewed before it is handed out at `at`.
    pub(crate) fn is_nearly_over(&self, entry: &Entry, at: Moment) -> bool {
        entry.kept_until() < at + self.ttl.third()
    }

    /// Ready at the next renewal that is answered, fails or comes too late.
    pub(crate) fn next_renewal(&self) -> impl Future<Output = ()> {
        self.renewed.notified()
    }

    /// A join was answered: the claim waits, and a look is due in `look_in`.
    pub(crate) fn wait(&self, entry: &Arc<Entry>, look_in: Duration) {
        let now = self.now();
        entry.wait(now);
        self.wake_keeper_for(entry);
        let mut table = self.table.lock();
        // A push may have come first; then the claim does not wait at all.
        if entry.stage() != Some(Stage::Waiting) || !table.entries.contains_key(&entry.claim.id.number) {
            return;
        }
        let name = &entry.claim.name;
        let missed_a_hint =
            self.hints.number(name) != entry.hints_at_entry && !seeded!("a_hint_before_the_answer_is_lost");
        let at = self.look_at(now, look_in, entry.claim.id.number);
        let mut at = table.start_waiting(name, entry.claim.id.number, at, self.warn_after);
        if missed_a_hint {
            table.look_now(name, now);
            at = now;
        }
        drop(table);
        self.wake_ups.look_by(at);
    }

    /// A claim is held, by the answer to its join, a push or a look. Returns why not, if it is gone.
    pub(crate) fn hold(&self, entry: &Entry, grant: Grant) -> Option<Loss> {
        let now = if self.lingers || self.max_hold.is_some() { self.now() } else { Moment::START };
        let loss = entry.hold(grant, now, self.latest(now), self.rounds.load(Ordering::Acquire));
        if !seeded!("a_hold_nudges_nobody") {
            self.wake_keeper_for(entry);
        }
        loss
    }

    /// A hold is given to another user of this client now. Returns whether the claim holds.
    pub(crate) fn pass_on(&self, entry: &Entry, now: Moment) -> bool {
        let holds = entry.pass_on(self.latest(now));
        self.wake_keeper_for(entry);
        holds
    }

    /// Until when a hold that begins now may last.
    fn latest(&self, now: Moment) -> Moment {
        let max_hold = self.max_hold.filter(|_| !seeded!("max_hold_has_no_end"));
        max_hold.map_or(Moment::NEVER, |max_hold| now + max_hold)
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
        self.wake_ups.look_by(at.unwrap_or(Moment::NEVER));
    }

    /// A claim is held. Returns whether the claim is known.
    fn is_held(&self, id: ClaimId, grant: Grant) -> bool {
        let Some(entry) = self.table.lock().entries.get(&id.number).cloned() else { return false };
        if self.hold(&entry, grant).is_some() {
            self.stands_there(&entry);
        }
        // In this order: a concurrent `wait` enters the claim among the waiters unless it sees that it is held.
        self.table.lock().stop_waiting(id.number);
        true
    }

    /// Whether the claim belongs to this session and is not over.
    pub(crate) fn knows(&self, id: ClaimId) -> bool {
        id.session == self.session && self.table.lock().entries.contains_key(&id.number)
    }

    /// Removes and returns the claims that can no longer be trusted at `now`.
    pub(crate) fn overdue(&self, now: Moment) -> Vec<Arc<Entry>> {
        // A claim that becomes held from now on, and that the loop below may have passed already, nudges.
        if !self.wake_ups.is_check_due(now) || seeded!("nobody_checks_deadlines") {
            return Vec::new();
        }
        let mut table = self.table.lock();
        let mut next = Moment::NEVER;
        let mut overdue = Vec::new();
        for entry in table.entries.values() {
            match entry.stage() {
                Some(Stage::Joining) | None => {}
                Some(_) if entry.is_overdue(now, Entry::due) => overdue.push(entry.clone()),
                Some(_) => next = next.min(entry.due()),
            }
        }
        self.wake_ups.next_check(next);
        for entry in &overdue {
            entry.leaves_slowly(); // its leave is not even sent, and the table forgets it now
            table.remove(entry.claim.id.number);
        }
        drop(table);
        if !overdue.is_empty() {
            self.renewed.notify_waiters();
            self.tell_of_removals();
        }
        overdue
    }

    /// Removes and returns the claims whose acquire nobody polls any more, although the store may have granted them.
    pub(crate) fn abandoned_joins(&self, now: Moment) -> Vec<Arc<Entry>> {
        let mut table = self.table.lock();
        let left: Vec<_> =
            table.entries.values().filter(|entry| entry.is_join_abandoned(now)).cloned().collect();
        for entry in &left {
            table.remove(entry.claim.id.number);
        }
        drop(table);
        self.tell_of_removals();
        left
    }

    /// Takes over the leaves whose users have not come back in time and may never do so.
    pub(crate) fn abandoned_leaves(&self, now: Moment) -> Vec<(Arc<Entry>, Reply<Left>)> {
        let table = self.table.lock();
        let taken_over = |entry: &Arc<Entry>| Some((entry.clone(), entry.take_over_leave(now)?));
        table.entries.values().filter_map(taken_over).collect()
    }

    /// The session is being closed: claims are refused from now on.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// The store is asked to end the session, which takes out all claims, and some leaves are not answered yet.
    pub(crate) fn ends_before_all_have_left(&self) {
        self.overtakes.store(true, Ordering::Release);
    }

    /// Whether the end of the session may have taken out a claim before its leave arrived.
    pub(crate) fn may_overtake_leaves(&self) -> bool {
        self.overtakes.load(Ordering::Acquire)
    }

    /// Claims are refused from now on, and those that do not hold yet are lost. Returns these, which the store may
    /// have, and those that hold.
    pub(crate) fn begin_draining(&self) -> (Vec<Arc<Entry>>, Vec<Arc<Entry>>) {
        self.begin_closing();
        let all: Vec<Arc<Entry>> = self.table.lock().entries.values().cloned().collect();
        let (mut turned_away, mut holding) = (Vec::new(), Vec::new());
        for entry in all {
            match entry.lose_unheld(Loss::Closed) {
                _ if seeded!("a_drain_turns_nobody_away") => {}
                Some(_) => turned_away.push(entry),
                None if entry.stage().is_some() => holding.push(entry),
                None => {} // it is on its way out already
            }
        }
        let mut table = self.table.lock();
        for entry in &turned_away {
            table.stop_waiting(entry.claim.id.number);
        }
        (turned_away, holding)
    }

    /// Ready at the next removal of a claim. Call it only while no more are entered.
    pub(crate) fn next_removal(&self) -> impl Future<Output = ()> {
        self.removed.notified()
    }

    /// Ready when every claim has left and its leave is confirmed, or the session is over. Call it only while no more
    /// are entered.
    pub(crate) async fn emptied(&self) {
        loop {
            let removed = self.removed.notified(); // listens from now on
            if self.is_over() || self.table.lock().entries.is_empty() {
                return;
            }
            removed.await;
        }
    }

    /// Everything is over. Returns the claims that are lost by that, and those that are leaving already, which stay
    /// known until they have left. The store may have either.
    pub(crate) fn lose_all(&self, loss: Loss) -> (Vec<Arc<Entry>>, Vec<Arc<Entry>>) {
        let all: Vec<Arc<Entry>> = self.table.lock().entries.values().cloned().collect();
        let (lost, leaving): (Vec<_>, Vec<_>) = all.into_iter().partition(|entry| entry.lose(loss).is_some());
        self.table.lock().clear(&lost);
        self.renewed.notify_waiters(); // no renewal will come
        self.tell_of_removals();
        (lost, leaving)
    }

    /// Nothing of the session is left in the store after this moment, although its end was not confirmed.
    pub(crate) fn is_surely_over_at(&self, moment: Moment) {
        self.surely_over_at.store(moment.as_nanos(), Ordering::Release);
    }

    /// After that nothing of the session is left in the store. Known once its keeper has given it up.
    pub(crate) fn surely_over_at(&self) -> Moment {
        Moment::from_nanos(self.surely_over_at.load(Ordering::Acquire))
    }

    pub(crate) fn is_surely_over(&self) -> bool {
        self.now() > self.surely_over_at()
    }

    /// The keeper will wake by itself at `at`, or earlier for the first look or deadline that is due.
    pub(crate) fn keeper_sleeps_until(&self, at: Moment) -> Moment {
        let at = self.table.lock().first_look().map_or(at, |due| at.min(due));
        self.wake_ups.keeper_looks_at(at)
    }

    /// Whether too little time is left. Before the answer to its join that is not known.
    fn is_too_short(&self, entry: &Entry) -> bool {
        entry.kept_until() > Moment::START && self.is_short(entry.kept_until())
    }

    /// Those of these claims that are known.
    pub(crate) fn find<'a>(&self, ids: impl Iterator<Item = &'a ClaimId>) -> Vec<Arc<Entry>> {
        let table = self.table.lock();
        ids.filter_map(|id| table.entries.get(&id.number).cloned()).collect()
    }

    /// Makes sure that the keeper is awake when this claim's time is over.
    fn wake_keeper_for(&self, entry: &Entry) {
        self.wake_ups.check_by(entry.due());
        if self.is_too_short(entry) {
            self.wake_ups.renew_early(EarlyRenewal::Short);
        }
    }

    fn look_at(&self, now: Moment, look_in: Duration, number: u64) -> Moment {
        self.ttl.look_at(now, look_in, number ^ self.session.get())
    }
}
