//! Clippy over all targets, with the lints of the workspace as errors. What only the simulation compiles is for the step
//! that builds it.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let call =
        cargo::call(&job.workspace.root).args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    // The test profile, so that C code in dependencies is compiled once for both.
    call.args(["--profile", "test", "--", "-D", "warnings"]).show(Show::Everything).run()?.required()?;
    tally.pass(1);
    Ok(())
}
