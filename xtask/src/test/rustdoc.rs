//! The documentation of the libraries, with warnings (a dead link, a missing page) as errors.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let mut call = cargo::call(&job.workspace.root).args(["doc", "--no-deps", "--all-features"]);
    for package in job.workspace.libraries() {
        call = call.args(["--package", &package.name]);
    }
    call.env("RUSTDOCFLAGS", "-D warnings").show(Show::Everything).run()?.required()?;
    tally.pass(1);
    Ok(())
}
