//! Clippy over all targets, with the lints of the workspace as errors; and over what only the simulation compiles.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::simulate;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let call =
        cargo::call(&job.workspace.root).args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    // The test profile, so that C code in dependencies is compiled once for both.
    call.args(["--profile", "test", "--", "-D", "warnings"]).show(Show::Everything).run()?.required()?;
    simulate::lint(&job.workspace)?;
    tally.pass(2);
    Ok(())
}
