//! The recorder: every event of one trial, in one order, from all of its clients.
//!
//! It also keeps an eye on what is held: before a grant is written down, every other hold of the name is asked
//! whether it knows by now that it is lost. So a hold counts for exactly as long as its guard says it can be trusted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidelock::{Moment, State};

use super::{Event, What};
use crate::Time;
use crate::hold::Kept;

/// The events of one trial.
#[derive(Debug)]
pub struct Recorder {
    time: Arc<dyn Time>,
    began: Moment,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    claims: u64,
    /// What is held of each name, by claim.
    held: BTreeMap<Arc<str>, BTreeMap<u64, Holding>>,
}

#[derive(Debug)]
struct Holding {
    who: Arc<str>,
    kept: Weak<Kept>,
}

/// Whose event it is.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) who: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) claim: u64,
}

impl Recorder {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(time: Arc<dyn Time>) -> Self {
        let began = time.now();
        Self { time, began, log: Mutex::default() }
    }

    /// Everything so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.log().events.clone()
    }

    /// A claim's author, with a number that no other has.
    pub(crate) fn author(&self, who: &Arc<str>, name: &str) -> Author {
        let mut log = self.log();
        log.claims += 1;
        Author { who: who.clone(), name: name.into(), claim: log.claims }
    }

    /// Something happened.
    pub(crate) fn note(&self, author: &Author, what: What) {
        let mut log = self.log();
        self.push(&mut log, author, what);
    }

    /// Something happened to all.
    pub(crate) fn note_for_all(&self, what: What) {
        self.note(&Author { who: "trial".into(), name: "".into(), claim: 0 }, what);
    }

    /// A claim was granted, and is kept by `kept`.
    pub(crate) fn granted(&self, author: &Author, token: u64, kept: &Arc<Kept>) {
        let mut log = self.log();
        self.note_losses(&mut log, &author.name);
        log.keep(author, kept);
        self.push(&mut log, author, What::Granted { token });
    }

    /// From here on nobody relies on that claim.
    pub(crate) fn let_go(&self, author: &Author) {
        let mut log = self.log();
        if log.keep_no_more(author) {
            self.push(&mut log, author, What::LetGo);
        }
    }

    /// The hold goes on under another guard.
    pub(crate) fn keep(&self, author: &Author, kept: &Arc<Kept>) {
        self.log().keep(author, kept);
    }

    /// Its guard is not looked at any more.
    pub(crate) fn keep_no_more(&self, author: &Author) {
        self.log().keep_no_more(author);
    }

    /// Writes something down while nobody else does.
    pub(crate) fn alone<T>(&self, author: &Author, work: impl FnOnce() -> (What, T)) -> T {
        let mut log = self.log();
        let (what, outcome) = work();
        self.push(&mut log, author, what);
        outcome
    }

    /// Whoever knows by now that it is lost stops counting.
    fn note_losses(&self, log: &mut Log, name: &Arc<str>) {
        let is_lost =
            |holding: &Holding| holding.kept.upgrade().is_none_or(|kept| kept.guard().state() == State::Lost);
        let of_name = log.held.get(name).into_iter().flatten();
        let lost = of_name.filter(|(_, holding)| is_lost(holding)).map(|(claim, holding)| Author {
            who: holding.who.clone(),
            name: name.clone(),
            claim: *claim,
        });
        for author in lost.collect::<Vec<_>>() {
            log.keep_no_more(&author);
            self.push(log, &author, What::Lost);
        }
    }

    fn push(&self, log: &mut Log, author: &Author, what: What) {
        let at = self.time.now().since(self.began);
        let Author { who, name, claim } = author.clone();
        log.events.push(Event { at, who, name, claim, what });
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn keep(&mut self, author: &Author, kept: &Arc<Kept>) {
        let holding = Holding { who: author.who.clone(), kept: Arc::downgrade(kept) };
        self.held.entry(author.name.clone()).or_default().insert(author.claim, holding);
    }

    /// Says whether it was kept until now.
    fn keep_no_more(&mut self, author: &Author) -> bool {
        let Some(of_name) = self.held.get_mut(&author.name) else {
            return false;
        };
        let was_kept = of_name.remove(&author.claim).is_some();
        if of_name.is_empty() {
            self.held.remove(&author.name);
        }
        was_kept
    }
}
