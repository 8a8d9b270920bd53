//! The recorder: every event of one trial, in one order, from all of its clients.
//!
//! It also watches the holds: before it records a grant, it asks the guard of every other hold of the name whether it
//! is lost by now. So a hold counts for exactly as long as its guard says it can be trusted.
//!
//! If several processes record one history, a process cannot wait for another's grants. Instead it looks at all its
//! holds all the time, and records a loss with the time of the last look before it. The order then follows from times,
//! not from positions. A process may be killed at any moment, so it writes down a request that others may notice before
//! it sends the request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidelock_core::State;
use tidelock_core::backend::Moment;
use tidelock_history::{Event, EventKind};

use crate::Time;
use crate::any_guard::AnyGuard;
use crate::witness::Witness;

/// The events of one trial.
#[derive(Debug)]
pub struct Recorder {
    time: Arc<dyn Time>,
    began: Moment,
    witness: Arc<Witness>,
    log: Mutex<Log>,
    /// Writes events down where they outlive this process. None: they stay here.
    outlet: Option<fn(&[Event])>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    claims: u64,
    /// The longest that a client may pass a hold on among its own tasks.
    linger: Duration,
    /// The holds of each name, by claim.
    held: BTreeMap<Arc<str>, BTreeMap<u64, Holding>>,
    /// The last look at all holds, if there are regular looks.
    looked: Option<Moment>,
}

#[derive(Debug)]
struct Holding {
    who: Arc<str>,
    kept: Weak<AnyGuard>,
    since: Moment,
}

/// The author of an event.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) who: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) claim: u64,
}

impl Recorder {
    /// No events yet.
    #[must_use]
    pub fn new(time: Arc<dyn Time>) -> Self {
        let began = time.now();
        Self { time, began, witness: Arc::default(), log: Mutex::default(), outlet: None }
    }

    /// One of several recorders of a history that began at that time. Its claims are counted from `first`. `outlet`
    /// writes events down where they outlive this process.
    #[must_use]
    pub fn of_many(time: Arc<dyn Time>, began: Moment, first: u64, outlet: fn(&[Event])) -> Self {
        let log = Log { claims: first, ..Log::default() };
        Self { time, began, witness: Arc::default(), log: Mutex::new(log), outlet: Some(outlet) }
    }

    /// What its clients are told on their wires, if a witness listens there.
    #[must_use]
    pub fn witness(&self) -> &Arc<Witness> {
        &self.witness
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> Moment {
        self.began
    }

    /// A client of this history may pass a hold on among its own tasks for this long.
    pub(crate) fn lingers(&self, longest: Duration) {
        let mut log = self.log();
        log.linger = log.linger.max(longest);
    }

    /// The longest that any of its clients may.
    pub(crate) fn linger(&self) -> Duration {
        self.log().linger
    }

    /// Writes all events so far to the outlet, if there is one.
    pub fn write_down(&self) {
        self.write_down_all(&mut self.log());
    }

    /// Looks at all holds. Call it all the time, or never.
    pub fn look(&self) {
        let mut log = self.log();
        let now = self.time.now();
        let names: Vec<Arc<str>> = log.held.keys().cloned().collect();
        for name in names {
            self.note_losses(&mut log, &name);
        }
        log.looked = Some(now);
    }

    /// All events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.log().events.clone()
    }

    /// The author of a new claim, with a unique number.
    pub(crate) fn author(&self, who: &Arc<str>, name: &str) -> Author {
        let mut log = self.log();
        log.claims += 1;
        Author { who: who.clone(), name: name.into(), claim: log.claims }
    }

    /// The position of the next event.
    pub(crate) fn position(&self) -> usize {
        self.log().events.len()
    }

    /// Records that a claim waits. The store's line has shown that, after the event at `shown`; without it, it waits behind
    /// another claim of its client.
    pub(crate) fn stands(&self, author: &Author, shown: Option<usize>) {
        let mut log = self.log();
        let now = self.time.now();
        let is_shown = shown.is_some_and(|shown| !log.has_moved_since(shown, author));
        self.push(&mut log, author, if is_shown { EventKind::Stands } else { EventKind::StandsBehind }, now);
    }

    /// Records an event that happened now.
    pub(crate) fn note(&self, author: &Author, what: EventKind) {
        let mut log = self.log();
        let now = self.time.now();
        self.push(&mut log, author, what, now);
    }

    /// Records an event that has happened by now, at some time since `at`.
    pub(crate) fn note_since(&self, author: &Author, what: EventKind, at: Moment) {
        let mut log = self.log();
        self.push(&mut log, author, what, at);
    }

    /// The time now.
    pub(crate) fn now(&self) -> Moment {
        self.time.now()
    }

    /// Records an event that concerns all.
    pub(crate) fn note_for_all(&self, what: EventKind) {
        self.note(&Author { who: "trial".into(), name: "".into(), claim: 0 }, what);
    }

    /// Records a grant; `kept` keeps its guard.
    pub(crate) fn granted(&self, author: &Author, kept: &Arc<AnyGuard>) {
        let guard = kept.guard();
        let (told, stood) = self.witness.told(guard.claim());
        let mut log = self.log();
        self.note_losses(&mut log, &author.name);
        let now = self.time.now();
        if guard.state() == State::Lost {
            return self.push(&mut log, author, EventKind::Failed, now); // lost before the client could rely on it
        }
        if let Some(stood) = stood {
            self.push(&mut log, author, EventKind::StandsUntilGranted, stood);
        }
        log.keep(author, kept, now);
        let (token, id) = (guard.token().get(), guard.claim().to_string().into());
        self.push(&mut log, author, EventKind::Granted { token, told, id }, now);
    }

    /// Records that the client no longer relies on that claim.
    pub(crate) fn let_go(&self, author: &Author) {
        let mut log = self.log();
        let now = self.time.now(); // before the guard is asked
        let Some(holding) = log.keep_no_more(author) else { return };
        if holding.is_lost() {
            let at = log.last_trusted(&holding).unwrap_or(now);
            self.push(&mut log, author, EventKind::Lost, at);
        } else {
            self.push(&mut log, author, EventKind::LetGo, now);
        }
    }

    /// The hold continues under another guard, which the recorder could not look at since `since`.
    pub(crate) fn keep(&self, author: &Author, kept: &Arc<AnyGuard>, since: Moment) {
        let mut log = self.log();
        let now = self.time.now(); // before the guard is asked
        match kept.guard().state() {
            State::Lost => self.push(&mut log, author, EventKind::Lost, since),
            _ => log.keep(author, kept, now),
        }
    }

    /// Stops looking at the claim's guard.
    pub(crate) fn keep_no_more(&self, author: &Author) {
        self.log().keep_no_more(author);
    }

    /// Records an event while no other can be recorded.
    pub(crate) fn alone<T>(&self, author: &Author, work: impl FnOnce() -> (EventKind, T)) -> T {
        let mut log = self.log();
        let now = self.time.now();
        let (what, outcome) = work();
        self.push(&mut log, author, what, now);
        outcome
    }

    /// Records a loss for each hold whose guard knows by now that it is lost.
    fn note_losses(&self, log: &mut Log, name: &Arc<str>) {
        let of_name = log.held.get(name).into_iter().flatten();
        let lost = of_name.filter(|(_, holding)| holding.is_lost()).map(|(claim, holding)| Author {
            who: holding.who.clone(),
            name: name.clone(),
            claim: *claim,
        });
        for author in lost.collect::<Vec<_>>() {
            let Some(holding) = log.keep_no_more(&author) else { continue };
            let at = log.last_trusted(&holding).unwrap_or_else(|| self.time.now());
            self.push(log, &author, EventKind::Lost, at);
        }
    }

    fn push(&self, log: &mut Log, author: &Author, what: EventKind, at: Moment) {
        let at = at.since(self.began);
        let Author { who, name, claim } = author.clone();
        let is_announced = is_announced(&what);
        log.events.push(Event { at, who, name, claim, what });
        if is_announced {
            self.write_down_all(log);
        }
    }

    fn write_down_all(&self, log: &mut Log) {
        if let Some(outlet) = self.outlet
            && !log.events.is_empty()
        {
            outlet(&std::mem::take(&mut log.events));
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn keep(&mut self, author: &Author, kept: &Arc<AnyGuard>, since: Moment) {
        let holding = Holding { who: author.who.clone(), kept: Arc::downgrade(kept), since };
        self.held.entry(author.name.clone()).or_default().insert(author.claim, holding);
    }

    /// Whether the client has got somewhere on that name since, or perhaps lost its place.
    fn has_moved_since(&self, position: usize, author: &Author) -> bool {
        use EventKind::{Cancelled, Failed, Fault, Granted, Lost, Refused};
        self.events[position.min(self.events.len())..].iter().any(|event| match event.what {
            Fault { .. } => true,
            Granted { .. } | Refused | Failed | Cancelled | Lost => {
                event.who == author.who && event.name == author.name
            }
            _ => false,
        })
    }

    /// Removes and returns the holding, if it was kept until now.
    fn keep_no_more(&mut self, author: &Author) -> Option<Holding> {
        let of_name = self.held.get_mut(&author.name)?;
        let was_kept = of_name.remove(&author.claim);
        if of_name.is_empty() {
            self.held.remove(&author.name);
        }
        was_kept
    }

    /// When a lost hold could surely be trusted for the last time, if there are regular looks.
    fn last_trusted(&self, holding: &Holding) -> Option<Moment> {
        self.looked.map(|looked| looked.max(holding.since))
    }
}

impl Holding {
    fn is_lost(&self) -> bool {
        self.kept.upgrade().is_none_or(|kept| kept.guard().state() == State::Lost)
    }
}

/// Whether this event announces a request whose effects other clients may see.
fn is_announced(what: &EventKind) -> bool {
    matches!(what, EventKind::Asked { .. } | EventKind::Resizing { .. } | EventKind::Evicted { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealTime;

    static WRITTEN: Mutex<Vec<Event>> = Mutex::new(Vec::new());

    fn write(events: &[Event]) {
        WRITTEN.lock().expect("nobody panicked").extend_from_slice(events);
    }

    #[test]
    fn a_request_that_others_may_notice_is_written_down_before_it_is_sent() {
        let recorder = Recorder::of_many(Arc::new(RealTime), Moment::START, 0, write);
        let author = recorder.author(&"a process".into(), "pool");
        let written = || WRITTEN.lock().expect("nobody panicked").len();
        recorder.note(&author, EventKind::Failed);
        assert_eq!(written(), 0, "it can wait");
        recorder.note(&author, EventKind::Resizing { to: 3 });
        assert_eq!(written(), 2, "others may be told the new size, even if this process is killed now");
        recorder.note(&author, EventKind::Evicted { id: "a claim".into() });
        assert_eq!(written(), 3);
    }
}
