//! Formatting: the cheapest check of all.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let checked =
        cargo::call(&job.workspace.root).args(["fmt", "--all", "--check"]).show(Show::Everything).run()?;
    if !checked.success() {
        return Err("some code is not formatted: run `cargo fmt --all`".into());
    }
    tally.pass(1);
    Ok(())
}
