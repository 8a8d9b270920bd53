//! The scenarios, one file each: the cost of a lock that no other task wants, that all tasks want, and cases in
//! between.

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

/// The size of every measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of slices for each side.
    pub(crate) slices: usize,
    /// The duration of a slice, if slices are timed.
    pub(crate) slice: Duration,
    /// The number of hand-offs in a slice.
    pub(crate) hand_offs: usize,
    /// The same for long lines: checking that a long line is full again takes longer than the hand-off.
    pub(crate) long_hand_offs: usize,
    /// How many more tasks stand in a long line.
    pub(crate) parked: usize,
    /// The number of buyers.
    pub(crate) buyers: usize,
    /// How many names one client holds when their memory and renewal are measured.
    pub(crate) names: usize,
    /// How many names one client holds while others are taken.
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
