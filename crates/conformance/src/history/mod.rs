//! The history of a trial, and whether it keeps the contract as a whole.
//!
//! Each check reads the events once, in order, and keeps its state in ordered maps: O(n log n) in all, as long as only
//! a few different weights meet on one name. A check reports a violation only if the delay between an event and its
//! recording cannot explain it. So a history without a violation proves nothing, and one with a violation proves that
//! the promise was broken.
//!
//! # A saved history
//!
//! One JSON object. `format` is `"tidelock history 1"`. `backend`, `trial` and `seed` say what was played and how to
//! replay it. `ttl` is how long claims lived, in nanoseconds like all times. `why` is the trial's own failure.
//! `broken` is absent, or describes the promise that the history breaks: `promise`, `sentence`, `name`, the `claims`
//! involved, and the positions `from` and `to` in `events` between which it happens. Each event has `at` (nanoseconds
//! since the trial began), `who`, `what`, and where they apply `name`, `claim`, `kind`, `weight`, `capacity`, `token`,
//! `told`, `id`, `accepted`, `act`. The words for `what` are those of [`What::word`].

mod conflicts;
mod event;
mod exclusion;
mod excused;
pub mod faulty;
mod fence;
mod kept;
mod order;
mod progress;
mod recorder;
mod sizes;
mod sums;
mod timeline;
mod tokens;
mod witness;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

pub use event::{Event, What};
pub(crate) use recorder::Author;
pub use recorder::Recorder;
pub use timeline::timeline;
pub use witness::Witness;

/// Everything that happened in one trial.
#[derive(Clone, Debug)]
pub struct History {
    /// The backend.
    pub backend: String,
    /// The trial.
    pub trial: String,
    /// The seed of the run.
    pub seed: u64,
    /// How long claims lived.
    pub ttl: Duration,
    /// How long a claim may wait while nobody holds.
    pub bound: Duration,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// A promise that a history can be seen to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// Claims held together fit.
    Exclusion,
    /// No claim overtakes one that was known to wait.
    Order,
    /// Of two conflicting grants the later has the greater token.
    Tokens,
    /// A resource never accepts an older token after a newer one.
    Fence,
    /// Once everything is healed, every claim is granted.
    Usable,
    /// No claim waits for long while nobody holds.
    Bounded,
    /// Clients that hold together were told the same size.
    Sizes,
    /// No client loses its hold while all is well.
    Kept,
}

impl Promise {
    /// The promise in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::Order => "order",
            Self::Tokens => "tokens",
            Self::Fence => "fence",
            Self::Usable => "usable after healing",
            Self::Bounded => "bounded waits",
            Self::Sizes => "one size",
            Self::Kept => "kept while all is well",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A promise that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// What happened.
    pub sentence: String,
    /// The name.
    pub name: String,
    /// The claims involved.
    pub claims: Vec<u64>,
    /// The first event of the shortest window that shows it.
    pub from: usize,
    /// The last event of that window.
    pub to: usize,
}

impl History {
    /// The promises that the history breaks, each with its shortest window.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let found = [
            exclusion::check(&self.events),
            sizes::check(&self.events),
            order::check(&self.events),
            tokens::check(&self.events),
            fence::check(&self.events),
            fence::refusals(&self.events),
            progress::usable(&self.events),
            progress::bounded(&self.events, self.bound),
        ];
        found.into_iter().filter_map(|found| found.into_iter().min_by_key(|v| v.to - v.from)).collect()
    }

    /// A loss of a hold although nothing had gone wrong in the time `before` it. Trials take guards away in other ways
    /// too, so only storms use this check.
    #[must_use]
    pub fn lost_for_no_reason(&self, before: Duration) -> Option<Violation> {
        kept::check(&self.events, before).into_iter().next()
    }

    /// The history as JSON for a file.
    #[must_use]
    pub fn to_json(&self, why: &str, broken: Option<&Violation>) -> Value {
        let ttl = u64::try_from(self.ttl.as_nanos()).unwrap_or(u64::MAX);
        let events: Vec<Value> = self.events.iter().map(Event::to_json).collect();
        let mut history = json!({
            "format": "tidelock history 1",
            "backend": self.backend,
            "trial": self.trial,
            "seed": self.seed,
            "ttl": ttl,
            "why": why,
            "events": events,
        });
        if let (Some(broken), Some(history)) = (broken, history.as_object_mut()) {
            history.insert("broken".into(), broken.to_json());
        }
        history
    }
}

impl Violation {
    fn to_json(&self) -> Value {
        json!({
            "promise": self.promise.as_str(),
            "sentence": self.sentence,
            "name": self.name,
            "claims": self.claims,
            "from": self.from,
            "to": self.to,
        })
    }
}
