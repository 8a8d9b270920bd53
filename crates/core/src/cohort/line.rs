//! The local lines of a client: who waits in them, and whose turn it is.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::heard::Heard;
use super::share::Share;
use super::waiting::{Waiter, Waiting};
use crate::backend::{Clock, Moment};
use crate::owned_claim::OwnedClaim;
use crate::registry::{Entry, Loss, Over, Stage};
use crate::sync::Mutex;
use crate::{ClaimId, Kind, Name};

/// All local lines of a client.
pub(crate) struct Cohorts<N> {
    pub(super) linger: Duration,
    /// How long who leads may be without a claim, while others wait.
    pub(super) patience: Duration,
    /// How often that is looked at.
    pub(super) pause: Duration,
    pub(super) table: Mutex<Table<N>>,
}

pub(super) struct Table<N> {
    /// Nobody enters any more.
    pub(super) is_closed: bool,
    /// Those of mutexes in which somebody leads or holds, and those of read-write locks.
    mutexes: HashMap<Name, Arc<Cohort<N>>>,
    rwlocks: HashMap<Name, Arc<Cohort<N>>>,
}

/// One local line.
pub(super) struct Cohort<N> {
    kind: Kind,
    name: Name,
    pub(super) all: Weak<Cohorts<N>>,
    pub(super) line: Mutex<Line<N>>,
    #[cfg(tidelock_simulation)]
    _counted: crate::simulation::LocalLine,
}

pub(super) struct Line<N> {
    pub(super) waiting: VecDeque<Arc<Waiter<N>>>,
    /// When so many wait, those that have given up are swept out.
    sweep_at: usize,
    pub(super) turn: u64,
    /// The claim that is held, while somebody holds it.
    pub(super) held: Option<ClaimId>,
    /// From then on that hold is not passed on; `None` if it is shared.
    pub(super) ends: Option<Moment>,
    pub(super) bell: Option<Wound>,
    /// How more readers can share it.
    pub(super) share: Option<Share>,
    pub(super) led: Led,
    /// Since when the store has not answered to those that lead. [`Moment::START`] if it has.
    silent_since: Moment,
    /// A silence before that says nothing of the store: a session was being opened, or who led was away.
    counts_from: Moment,
    /// While the store is silent, those that lead have until then, whatever is left of their own time.
    grace_until: Moment,
    /// How often the store has answered to one that leads.
    answers: u64,
    /// What the last answer was about. `None` once that is lost: then no answer says any more that anybody has to wait.
    answered: Option<Answered>,
}

/// A claim that the store had in line, as far as the line remembers it: it may have left since.
struct Answered {
    claim: ClaimId,
    session: Over,
}

/// The bell of a line, and when it rings.
pub(super) struct Wound {
    pub(super) at: Moment,
    pub(super) bell: Arc<dyn Rings>,
}

/// Something that rings.
pub(super) trait Rings: Send + Sync {
    /// Rings when its line says.
    fn wind_up(self: Arc<Self>);
    fn stop(&self);
}

/// What is known of the one that leads.
#[derive(Default)]
pub(super) struct Led {
    /// Whether it wants to read only, if it has waited here. The store may not know of it yet.
    pub(super) reads: Option<bool>,
    /// It awaits a session, if it is polled.
    awaits_session: bool,
    /// Its claim.
    claim: Option<Arc<Entry>>,
    /// The store has answered that this waits or holds.
    is_answered: bool,
    /// Since when it is known not to stand in the store's line.
    pub(super) neglected_since: Option<Moment>,
}

/// The least number of waiters for a sweep.
const FEW: usize = 64;

impl<N> Cohorts<N> {
    pub(crate) fn new(linger: Duration, patience: Duration, ttl: Duration) -> Arc<Self> {
        Arc::new(Self { linger, patience, pause: patience.min(ttl), table: Mutex::new(Table::new()) })
    }

    /// Whether holds are passed on at all.
    pub(crate) fn is_on(&self) -> bool {
        !self.linger.is_zero()
    }
}

impl<N> Table<N> {
    fn new() -> Self {
        Self { is_closed: false, mutexes: HashMap::new(), rwlocks: HashMap::new() }
    }

    /// The lines of a kind. A name that is used as another kind is refused by the store, and not by a local line.
    pub(super) fn of(&mut self, kind: Kind) -> &mut HashMap<Name, Arc<Cohort<N>>> {
        if kind == Kind::Mutex { &mut self.mutexes } else { &mut self.rwlocks }
    }

    /// All lines, in an order of their own.
    pub(super) fn all(&self) -> Vec<Arc<Cohort<N>>> {
        let mut all: Vec<_> = self.mutexes.values().chain(self.rwlocks.values()).cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

impl<N> Cohort<N> {
    pub(super) fn new(kind: Kind, name: Name, all: Weak<Cohorts<N>>) -> Arc<Self> {
        let line = Line {
            waiting: VecDeque::new(),
            sweep_at: FEW,
            turn: 0,
            held: None,
            ends: None,
            bell: None,
            share: None,
            led: Led::default(),
            silent_since: Moment::START,
            counts_from: Moment::START,
            grace_until: Moment::START,
            answers: 0,
            answered: None,
        };
        Arc::new(Self {
            kind,
            name,
            all,
            line: Mutex::new(line),
            #[cfg(tidelock_simulation)]
            _counted: crate::simulation::LocalLine::new(),
        })
    }

    /// How many wait here: those behind the one that leads, and itself if its claim is not among those that are shown.
    pub(super) fn waiting(&self, is_shown: &impl Fn(ClaimId) -> bool) -> usize {
        let line = self.line.lock();
        let leads =
            line.held.is_none() && !line.led.claim.as_ref().is_some_and(|entry| is_shown(entry.claim.id));
        usize::from(leads) + line.waiting.iter().filter(|waiter| waiter.waits()).count()
    }

    /// The first of those that wait, for whoever has this turn, unless it wants to read.
    pub(super) fn next_in(&self, turn: u64) -> Option<Arc<Waiter<N>>> {
        let mut line = self.line.lock();
        if line.turn == turn { line.pop_if(false) } else { None }
    }

    /// Whether the first of those that wait wants what a writer or the holder of a mutex has.
    pub(super) fn has_waiting(&self) -> bool {
        self.line.lock().first().is_some_and(|waiter| !waiter.reads)
    }

    /// Whether anybody waits.
    pub(super) fn has_any(&self) -> bool {
        self.line.lock().first().is_some()
    }

    /// This turn is over: begins the next one, and returns its number and the first of those that wait. Without any, the
    /// local line is over too.
    pub(super) fn next_turn(&self, turn: u64) -> Option<(u64, Arc<Waiter<N>>)> {
        let all = self.all.upgrade();
        let _ended; // dropped without the locks
        // In this order, so that nobody enters a line that is over.
        let mut table = all.as_ref().map(|all| all.table.lock());
        if seeded!("a_line_that_is_over_is_entered") {
            table = None;
        }
        let mut line = self.line.lock();
        if line.turn != turn && !seeded!("a_turn_is_over_twice") {
            return None;
        }
        (_, _ended) = line.begin_turn();
        let next = line.waiting.pop_front();
        line.led.reads = next.as_ref().map(|next| next.reads);
        if next.is_none()
            && let Some(table) = &mut table
        {
            table.of(self.kind).remove(&self.name);
        }
        if seeded!("a_line_that_is_over_is_entered") && next.is_none() {
            drop(line);
            if let Some(all) = &all {
                all.table.lock().of(self.kind).remove(&self.name);
            }
            return None;
        }
        next.map(|next| (line.turn, next))
    }

    /// The first of those that wait, as far as they came by then or while the store answered. They leave the local line.
    pub(super) fn take_first(&self, turn: u64, by: Moment) -> VecDeque<Arc<Waiter<N>>> {
        let mut line = self.line.lock();
        if line.turn != turn {
            return VecDeque::new();
        }
        let first = line.waiting.iter().take_while(|waiter| waiter.since <= by).count();
        let stay = line.waiting.split_off(first);
        std::mem::replace(&mut line.waiting, stay)
    }

    /// Whether a silence since then says something of the store.
    pub(super) fn counts_since(&self, since: Moment) -> bool {
        self.line.lock().counts_from <= since
    }

    /// What one that is about to lead has heard of the store.
    pub(super) fn heard_by(&self, waiter: &Waiter<N>) -> Heard {
        let line = self.line.lock();
        let is_silent = line.silent_since != Moment::START;
        if line.has_to_wait(waiter.answers) {
            if is_silent { Heard::WaitAndNothingSince(line.silent_since) } else { Heard::Wait }
        } else if line.answers == waiter.answers && waiter.since != Moment::START {
            Heard::NothingSince(waiter.since.max(line.counts_from))
        } else if is_silent {
            Heard::NothingSince(line.silent_since) // it came while the store answered
        } else {
            Heard::Nothing
        }
    }

    /// Who leads in this turn asks the store now, and nobody has an answer.
    pub(super) fn is_silent_from(&self, turn: u64, now: Moment) {
        let mut line = self.line.lock();
        if line.turn == turn {
            line.led.awaits_session = true;
            if line.silent_since == Moment::START {
                line.silent_since = now;
            }
        }
    }

    /// A session is open, and nobody has asked the store in it before this moment: no silence before counts.
    pub(super) fn is_open_since(&self, turn: u64, since: Moment) {
        let mut line = self.line.lock();
        if line.turn == turn {
            line.silent_since = line.silent_since.max(since);
            line.counts_from = line.counts_from.max(since);
        }
    }

    /// Who leads in this turn was away, and came `back` then.
    pub(super) fn was_away(&self, turn: u64, back: Moment) {
        let mut line = self.line.lock();
        if line.turn == turn {
            line.takes_silence_back(back);
        }
    }

    /// Who leads in this turn goes. It was away if its join was given up for it.
    pub(super) fn goes(&self, turn: u64, now: Moment) {
        let mut line = self.line.lock();
        if line.turn == turn && line.led.is_abandoned() {
            line.takes_silence_back(now);
        }
    }

    /// Who leads in this turn has this claim, and the store has it in line if `is_answered`.
    pub(super) fn is_led_with(&self, turn: u64, owned: &OwnedClaim, is_answered: bool) {
        let mut claim = Some(owned.entry.clone());
        let mut line = self.line.lock();
        if line.turn == turn {
            std::mem::swap(&mut line.led.claim, &mut claim); // so that one before it is dropped without the lock
            (line.led.is_answered, line.led.neglected_since) = (false, None);
            line.led.awaits_session = false;
            if is_answered {
                line.is_answered(owned);
            }
        }
    }

    /// Until when those have time that lead while the store is silent: a `part` of a command's, and together no more, so
    /// that it delays nobody's error for longer than that.
    pub(super) fn grace(&self, now: Moment, part: Duration) -> Moment {
        let mut line = self.line.lock();
        if line.grace_until <= now {
            line.grace_until = now + part;
        }
        line.grace_until
    }

    /// Whether the store has said that one that stands here has to wait: to somebody before it.
    pub(super) fn has_to_wait(&self, answers_before: u64) -> bool {
        self.line.lock().has_to_wait(answers_before)
    }

    /// The claim is held in this turn. More readers can share it like this; otherwise it is passed on until `ends`.
    pub(super) fn is_held_by(&self, owned: &OwnedClaim, turn: u64, ends: Moment, share: Option<Share>) {
        let mut line = self.line.lock();
        if line.turn == turn {
            line.is_answered(owned);
            let ends = share.is_none().then_some(ends);
            (line.held, line.ends, line.share) = (Some(owned.entry.claim.id), ends, share);
        }
    }
}

impl Led {
    /// Whether its claim stands in the store's line.
    pub(super) fn stands(&self) -> bool {
        self.is_answered && self.claim.as_ref().is_some_and(|entry| entry.loss().is_none())
    }

    /// Whether its claim waits in the store's line. One that was granted, and not seen, waits no more.
    pub(super) fn waits(&self) -> bool {
        self.stands() && self.claim.as_ref().is_some_and(|entry| entry.stage() != Some(Stage::Held))
    }

    /// Whether its claim is lost, and it has not come for another one.
    pub(super) fn is_without_claim(&self) -> bool {
        self.claim.as_ref().is_some_and(|entry| entry.loss().is_some())
    }

    /// Whether its claim was given up for it, before it heard of an answer: it is not polled.
    pub(super) fn is_abandoned(&self) -> bool {
        !self.is_answered && self.claim.as_ref().is_some_and(|entry| entry.loss() == Some(Loss::Deadline))
    }
}

impl<N> Line<N> {
    /// Returns the number of the new turn, and what is to be dropped without the lock.
    pub(super) fn begin_turn(&mut self) -> (u64, Led) {
        self.turn += 1;
        (self.held, self.ends, self.share) = (None, None, None);
        (self.turn, std::mem::take(&mut self.led))
    }

    /// Whether the store has said, since so many answers, that others are ahead, and their place was not lost since.
    pub(super) fn has_to_wait(&self, answers_before: u64) -> bool {
        self.answers > answers_before && !self.has_lost_its_place()
    }

    /// Whether the claim that the last answer was about is lost, or its session has ended, and with it the place of all.
    pub(super) fn has_lost_its_place(&self) -> bool {
        self.answered.as_ref().is_none_or(|answered| answered.session.is_set())
    }

    /// This claim is lost. One that was given back, or held for too long, had its turn.
    pub(super) fn is_without(&mut self, claim: ClaimId, loss: Loss) {
        let had_its_turn = matches!(loss, Loss::Left | Loss::MaxHold);
        self.answered.take_if(|answered| answered.claim == claim && !had_its_turn);
    }

    /// Whether it is known of the one that leads whether it stands in the store's line: it does, or did not at a look.
    pub(super) fn is_known(&self) -> bool {
        self.is_led() || self.led.neglected_since.is_some()
    }

    fn is_led(&self) -> bool {
        self.held.is_some() || self.led.waits()
    }

    /// Looks whether who leads has neither stood in the store's line nor held for as long as its `patience`, or was given
    /// up for.
    pub(super) fn is_neglected(&mut self, now: Moment, patience: Duration) -> bool {
        if self.is_led() {
            self.led.neglected_since = None;
            return false;
        }
        let since = *self.led.neglected_since.get_or_insert(now);
        let is_neglected = self.led.is_abandoned() || now >= since + patience;
        if is_neglected {
            // Who was not there has heard no silence. Who awaits a session may be there.
            self.takes_silence_back(if self.led.awaits_session { Moment::START } else { now });
        }
        is_neglected
    }

    /// The silence before `until` says nothing of the store.
    fn takes_silence_back(&mut self, until: Moment) {
        (self.silent_since, self.counts_from) = (Moment::START, self.counts_from.max(until));
    }

    /// This claim of the one that leads waits or holds.
    fn is_answered(&mut self, owned: &OwnedClaim) {
        self.answers += 1;
        (self.silent_since, self.grace_until) = (Moment::START, Moment::START);
        self.led.is_answered = true;
        let (claim, session) = (owned.entry.claim.id, owned.live.registry.over.clone());
        self.answered = Some(Answered { claim, session });
    }

    /// Whether this is its bell. It may have been put away, and another one is wound up since.
    pub(super) fn has_bell(&self, bell: &dyn Rings) -> bool {
        let is_same =
            |own: &Wound| std::ptr::addr_eq(Arc::as_ptr(&own.bell), bell) || seeded!("a_bell_put_away_rings");
        self.bell.as_ref().is_some_and(is_same)
    }

    /// The first of those that wait. Those before it that have given up are taken out.
    pub(super) fn first(&mut self) -> Option<&Arc<Waiter<N>>> {
        while self.waiting.front().is_some_and(|waiter| !waiter.waits()) {
            self.waiting.pop_front();
        }
        self.waiting.front()
    }

    /// The first of those that wait, if it `reads`, or does not.
    pub(super) fn pop_if(&mut self, reads: bool) -> Option<Arc<Waiter<N>>> {
        let is_meant = self.first().is_some_and(|waiter| waiter.reads == reads);
        if is_meant { self.waiting.pop_front() } else { None }
    }

    /// Stands behind all that wait.
    pub(super) fn stand(&mut self, reads: bool, clock: &dyn Clock) -> Waiting<N> {
        let is_served = self.held.is_some() || self.led.stands();
        let answers = self.answers.saturating_sub(u64::from(is_served));
        let since = if is_served { Moment::START } else { clock.now() };
        let waiter = Arc::new(Waiter::new(since, reads, answers));
        if seeded!("who_comes_last_is_first") {
            self.waiting.push_front(waiter.clone());
        } else {
            self.waiting.push_back(waiter.clone());
        }
        self.sweep();
        Waiting::of(waiter)
    }

    /// Behind one that holds for long, many may come and give up.
    fn sweep(&mut self) {
        if self.waiting.len() >= self.sweep_at {
            self.waiting.retain(|waiter| waiter.waits());
            self.sweep_at = FEW.max(self.waiting.len() * 2);
        }
    }
}

impl<N> Drop for Line<N> {
    fn drop(&mut self) {
        if let Some(wound) = &self.bell {
            wound.bell.stop();
        }
    }
}

impl<N> fmt::Debug for Cohorts<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cohorts({} lines)", self.table.lock().all().len())
    }
}
