//! The scenarios, a file each: what a lock costs where nobody else wants it, where everybody does, and in between.

mod handoff;
mod held;
mod hot;
mod own;
mod pairs;
mod procs;
mod relay;
mod sale;
mod till;

use std::time::Duration;

use crate::Result;
use crate::report::Section;
use crate::subject::Subject;

pub(crate) const SCENARIOS: [&str; 6] = ["own", "hot", "handoff", "procs", "sale", "held"];

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Slices of each side.
    pub(crate) slices: usize,
    /// How long one is, where a slice is a time.
    pub(crate) slice: Duration,
    /// How many hand-offs one is.
    pub(crate) hand_offs: usize,
    /// How many where many stand in line: to see that the line is full again takes longer than the hand-off.
    pub(crate) long_hand_offs: usize,
    /// How many more stand in line where many do.
    pub(crate) parked: usize,
    /// How many want to buy.
    pub(crate) buyers: usize,
    /// How many names one client holds, for their bytes and their renewal.
    pub(crate) names: usize,
    /// How many it holds while others are taken.
    pub(crate) held: usize,
}

pub(crate) async fn run<S: Subject>(scenario: &str, subject: &S, plan: &Plan) -> Result<Section> {
    match scenario {
        "own" => own::run(subject, plan).await,
        "hot" => hot::run(subject, plan).await,
        "handoff" => handoff::run(subject, plan).await,
        "procs" => procs::run(subject, plan).await,
        "sale" => sale::run(subject, plan).await,
        _ => held::run(subject, plan).await,
    }
}
