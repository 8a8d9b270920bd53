//! The result of a run: as text for people, as JSON for machines, as a table for README.

mod json;
mod table;
mod text;

use std::path::PathBuf;
use std::time::Duration;

pub use table::table;
pub use text::Painter;

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

/// The result of a run on one subject.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject's name.
    pub backend: String,
    /// The assumptions behind its promises.
    pub assumptions: Vec<String>,
    /// What may happen to it, and whether two clients may both believe that they hold then.
    pub beliefs: Vec<(Mishap, Belief)>,
    /// The seed of the run.
    pub seed: u64,
    /// Whether it was a deep run.
    pub deep: bool,
    /// The result of each trial.
    pub verdicts: Vec<Verdict>,
    /// How long the whole run took.
    pub took: Duration,
}

/// The result of one trial.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which trial.
    pub trial: Trial,
    /// How it ended.
    pub ending: Ending,
    /// How long it took.
    pub took: Duration,
    /// How long the machine itself stood still meanwhile, if that mattered: the trial failed, or it passed because its
    /// bounds were extended by that.
    pub stalled: Option<Duration>,
    /// Why it failed the first time, if that proved nothing: the processors were short. Then it was played again alone.
    pub first: Option<String>,
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
        /// Whether the history itself breaks the contract, and not just by lateness: a slow machine is no excuse for
        /// that.
        broke: bool,
    },
    /// The subject cannot do what the trial needs, for this reason.
    Skipped(String),
}

/// How many trials passed, failed and were skipped.
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
        seed: u64,
        deep: bool,
        verdicts: Vec<Verdict>,
        took: Duration,
    ) -> Self {
        Self {
            backend: subject.name().to_owned(),
            assumptions: subject.assumptions(),
            beliefs: Mishap::ALL.map(|mishap| (mishap, subject.belief(mishap))).to_vec(),
            seed,
            deep,
            verdicts,
            took,
        }
    }

    /// Whether no trial failed, and at least one was played.
    #[must_use]
    pub fn passed(&self) -> bool {
        let score = self.score();
        score.failed == 0 && score.passed > 0
    }

    /// The score of all trials.
    #[must_use]
    pub fn score(&self) -> Score {
        Score::of(self.verdicts.iter())
    }

    /// The score of the trials of one point of the contract, numbered from 1.
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
