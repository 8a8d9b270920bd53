//! Checks that the tables in README.md and docs/guarantees.md match the reports of this run.
//!
//! A machine may forbid what a trial needs, for instance a container without namespaces. Its reports lack that trial,
//! which says nothing against the tables; so they cannot be compared there.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::Job;
use crate::backend;
use crate::guarantees;
use crate::tally::Tally;
use crate::trouble::{Result, While};

/// How the suite begins the reason for skipping a trial that the machine does not permit.
const FORBIDDEN: &str = "this system cannot";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = job.suite()?;
    let runs = backend::called("all")?;
    let reports: Vec<_> =
        runs.iter().flat_map(|backend| backend.runs()).map(|run| suite.report(run)).collect();
    if !reports.iter().all(|report| is_newer(report, job.began)) {
        return Err(
            "the tables need whole runs of the steps `conformance` and `deployments` before them".into()
        );
    }
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

/// Whether this file was written after this moment.
fn is_newer(file: &Path, moment: SystemTime) -> bool {
    fs::metadata(file).and_then(|found| found.modified()).is_ok_and(|written| written >= moment)
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
    use std::time::Duration;

    use super::*;
    use crate::place::Scratch;

    #[test]
    fn the_report_of_another_run_is_none_of_this_one() {
        let scratch = Scratch::new("reports").unwrap();
        let file = scratch.path().join("memory.json");
        let before = SystemTime::now() - Duration::from_secs(1);
        assert!(!is_newer(&file, before), "there is none");
        fs::write(&file, "{}").unwrap();
        assert!(is_newer(&file, before) && !is_newer(&file, SystemTime::now() + Duration::from_secs(1)));
    }

    #[test]
    fn what_the_machine_forbids_is_known_from_a_report() {
        let report = |why: &str| format!(r#"{{ "ending": "skipped", "why": "{why}" }}, {{ "a": "b" }}"#);
        let forbidden = report("cannot make clocks differ: this system cannot give a clock: no");
        assert_eq!(reason(&forbidden), Some("this system cannot give a clock: no"));
        assert_eq!(reason(&report("a server has one clock")), None);
    }
}
