//! The history itself, what it is checked for, and its form in a file.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Event, Violation};
use crate::{exclusion, fence, kept, order, passes, progress, sizes, tokens, turns};

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
    /// For how long a client may pass a hold on among its own tasks.
    pub linger: Duration,
    /// How long a claim may wait while nobody holds.
    pub bound: Duration,
    /// The events, in order.
    pub events: Vec<Event>,
}

impl History {
    /// The promises that the history breaks, each with its shortest window.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let found = [
            exclusion::check(&self.events),
            sizes::check(&self.events),
            order::check(&self.events, self.linger),
            passes::check(&self.events, self.linger),
            turns::check(&self.events, self.linger),
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
        let [ttl, linger] =
            [self.ttl, self.linger].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let events: Vec<Value> = self.events.iter().map(Event::to_json).collect();
        let mut history = json!({
            "format": "tidelock history 1",
            "backend": self.backend,
            "trial": self.trial,
            "seed": self.seed,
            "ttl": ttl,
            "linger": linger,
            "why": why,
            "events": events,
        });
        if let (Some(broken), Some(history)) = (broken, history.as_object_mut()) {
            history.insert("broken".into(), broken.to_json());
        }
        history
    }
}
