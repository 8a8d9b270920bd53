//! What a run came to: for people as text, for machines as JSON, for README as a table.

mod json;
mod table;
mod text;

use std::path::PathBuf;
use std::time::Duration;

pub use table::table;
pub use text::Painter;

use crate::runner::Settings;
use crate::{Belief, Mishap, Subject, Trial};

/// The points of the contract, in its order.
pub const POINTS: [&str; 13] = [
    "Exclusion",
    "Tokens",
    "Order",
    "Loss is told in time",
    "A dead client costs a ttl",
    "Cancellation leaves nothing",
    "Leave is exact",
    "Notifications are only hints",
    "Isolation",
    "Nothing leaks",
    "Bad input",
    "Cost",
    "Restart",
];

/// What a run on one subject came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject's name.
    pub backend: String,
    /// What its promises rest on.
    pub assumptions: Vec<String>,
    /// What may happen to it, and whether two may both believe then.
    pub beliefs: Vec<(Mishap, Belief)>,
    /// The seed of the run.
    pub seed: u64,
    /// Whether it was a deep one.
    pub deep: bool,
    /// What each trial came to.
    pub verdicts: Vec<Verdict>,
    /// How long it all took.
    pub took: Duration,
}

/// What one trial came to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which trial.
    pub trial: Trial,
    /// How it ended.
    pub ending: Ending,
    /// How long it took.
    pub took: Duration,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The promise was kept.
    Passed,
    /// It was broken.
    Failed {
        /// How.
        why: String,
        /// The window of the history that shows it.
        timeline: String,
        /// Where the whole history is.
        saved: Option<PathBuf>,
    },
    /// The subject cannot do what the trial needs, for this reason.
    Skipped(String),
}

/// Whether a promise holds, as far as the trials show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Trials that passed.
    pub passed: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Trials that were skipped.
    pub skipped: usize,
}

impl Report {
    pub(crate) fn new(
        subject: &dyn Subject,
        settings: &Settings,
        verdicts: Vec<Verdict>,
        took: Duration,
    ) -> Self {
        Self {
            backend: subject.name().to_owned(),
            assumptions: subject.assumptions(),
            beliefs: Mishap::ALL.map(|mishap| (mishap, subject.belief(mishap))).to_vec(),
            seed: settings.seed,
            deep: settings.deep,
            verdicts,
            took,
        }
    }

    /// Whether nothing failed, and something was played.
    #[must_use]
    pub fn passed(&self) -> bool {
        let score = self.score();
        score.failed == 0 && score.passed > 0
    }

    /// How all of it went.
    #[must_use]
    pub fn score(&self) -> Score {
        Score::of(self.verdicts.iter())
    }

    /// How the trials of one point of the contract went, counted from 1.
    #[must_use]
    pub fn score_of(&self, point: u8) -> Score {
        Score::of(self.verdicts.iter().filter(|verdict| verdict.trial.points.contains(&point)))
    }
}

impl Score {
    fn of<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut score = Self::default();
        for verdict in verdicts {
            match verdict.ending {
                Ending::Passed => score.passed += 1,
                Ending::Failed { .. } => score.failed += 1,
                Ending::Skipped(_) => score.skipped += 1,
            }
        }
        score
    }
}
