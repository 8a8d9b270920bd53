//! Checks that the tables in README.md and docs/guarantees.md match the reports of this run.

use super::Job;
use crate::backend;
use crate::conformance::Suite;
use crate::guarantees;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let reports = job.reports.borrow();
    let needed: usize = backend::called("all")?.iter().map(|backend| backend.deployments.len().max(1)).sum();
    if reports.len() < needed {
        return Err("the tables need whole runs of the steps `conformance` and `servers` before them".into());
    }
    let suite = Suite::among_all(&job.workspace)?;
    guarantees::check(&job.workspace.root, &suite.table(&reports)?)?;
    println!("the tables in README.md and docs/guarantees.md match these runs");
    tally.pass(1);
    Ok(())
}
