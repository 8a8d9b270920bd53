//! The scenarios, one file each: the cost of a lock that no other task wants, that all tasks want, and cases in
//! between.

mod cohort;
mod crowds;
mod handoff;
mod held;
mod hot;
mod own;
mod pairs;
mod plan;
mod procs;
mod relay;
mod rush;
mod sale;
mod till;

pub(crate) use plan::Plan;

use crate::Result;
use crate::report::Section;
use crate::subject::Subject;

pub(crate) const SCENARIOS: [&str; 8] =
    ["own", "hot", "handoff", "procs", "sale", "held", "cohort", "crowds"];

pub(crate) async fn run<S: Subject>(scenario: &str, subject: &S, plan: &Plan) -> Result<Section> {
    match scenario {
        "own" => own::run(subject, plan).await,
        "hot" => hot::run(subject, plan).await,
        "handoff" => handoff::run(subject, plan).await,
        "procs" => procs::run(subject, plan).await,
        "sale" => sale::run(subject, plan).await,
        "held" => held::run(subject, plan).await,
        "cohort" => cohort::run(subject, plan).await,
        _ => crowds::run(subject, plan).await,
    }
}
