//! How the suite is run.

use std::path::PathBuf;
use std::time::Duration;

use tidelock_core::Options;

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only trials whose name contains this.
    pub filter: Option<String>,
    /// Larger crowds and more rounds.
    pub deep: bool,
    /// The seed of every random choice.
    pub seed: u64,
    /// For how long the clients pass a hold on among their own tasks: see [`Options::linger`].
    pub linger: Duration,
    /// After how long a trial counts as hung, in real time. Slow is not hung: what must be fast has a bound in its trial.
    pub time_out: Duration,
    /// Where the histories of failed trials are saved.
    pub histories: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            filter: None,
            deep: false,
            seed: 1,
            linger: Options::new().linger,
            time_out: Duration::from_secs(240),
            histories: std::env::temp_dir().join("tidelock-conformance"),
        }
    }
}
