//! Checks that the tables in README.md and docs/guarantees.md match the reports of this run.
//!
//! A machine may forbid what a trial needs, for instance a container without namespaces. Its reports lack that trial,
//! which says nothing against the tables; so they cannot be compared there.

use std::fs;
use std::path::Path;

use super::Job;
use crate::backend;
use crate::guarantees;
use crate::tally::Tally;
use crate::trouble::{Result, While};

/// How the suite begins the reason for skipping a trial that the machine does not permit.
const FORBIDDEN: &str = "this system cannot";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let runs: Vec<&str> = backend::called("all")?.iter().flat_map(|backend| backend.runs()).collect();
    if runs.iter().any(|run| !job.reports.borrow().contains(run)) {
        return Err(
            "the tables need whole runs of the steps `conformance` and `deployments` before them".into()
        );
    }
    let suite = job.suite()?;
    let reports: Vec<_> = runs.iter().map(|run| suite.report(run)).collect();
    for report in &reports {
        if let Some(why) = forbidden(report)? {
            println!("the tables cannot be compared on this machine: {why}");
            tally.skip(1);
            return Ok(());
        }
    }
    guarantees::check(&job.workspace.root, &suite.table(&reports)?)?;
    println!("the tables in README.md and docs/guarantees.md match these runs");
    tally.pass(1);
    Ok(())
}

/// Why this machine could not run a trial of this report, if there was one.
fn forbidden(report: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(report).when(|| format!("read {}", report.display()))?;
    Ok(reason(&text).map(str::to_owned))
}

fn reason(report: &str) -> Option<&str> {
    report[report.find(FORBIDDEN)?..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_forbids_is_known_from_a_report() {
        let report = |why: &str| format!(r#"{{ "ending": "skipped", "why": "{why}" }}, {{ "a": "b" }}"#);
        let forbidden = report("cannot make clocks differ: this system cannot give a clock: no");
        assert_eq!(reason(&forbidden), Some("this system cannot give a clock: no"));
        assert_eq!(reason(&report("a server has one clock")), None);
    }
}
