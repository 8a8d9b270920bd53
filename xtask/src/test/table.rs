//! Checks that the tables in README.md and docs/guarantees.md match the reports of this run.

use super::Job;
use crate::backend;
use crate::guarantees;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let runs: Vec<&str> = backend::called("all")?.iter().flat_map(|backend| backend.runs()).collect();
    if runs.iter().any(|run| !job.reports.borrow().contains(run)) {
        return Err(
            "the tables need whole runs of the steps `conformance` and `deployments` before them".into()
        );
    }
    let suite = job.suite()?;
    let reports: Vec<_> = runs.iter().map(|run| suite.report(run)).collect();
    guarantees::check(&job.workspace.root, &suite.table(&reports)?)?;
    println!("the tables in README.md and docs/guarantees.md match these runs");
    tally.pass(1);
    Ok(())
}
