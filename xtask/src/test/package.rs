//! What would be published: all libraries packaged together and built from their packages.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    // What is not committed is packaged too: this is a test, not a release.
    let mut call = cargo::call(&job.workspace.root).args(["package", "--allow-dirty"]);
    for package in job.workspace.libraries() {
        call = call.args(["--package", &package.name]);
    }
    call.show(Show::Everything).run()?.required()?;
    tally.pass(job.workspace.libraries().count() as u64);
    Ok(())
}
