//! What would be published: all libraries packaged together and built from their packages.
//!
//! Cargo unpacks the packages into its home, into a folder that it names by the target folder, and keeps what it
//! once unpacked there: the next run would build one package against another of the run before. So each run has a
//! target folder of its own. What is left in cargo's home is small, and cargo clears it away in time.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::place::Scratch;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let target = Scratch::new("package")?;
    // What is not committed is packaged too: this is a test, not a release.
    let mut call = cargo::call(&job.workspace.root).args(["package", "--allow-dirty"]);
    for package in job.workspace.libraries() {
        call = call.args(["--package", &package.name]);
    }
    call.env("CARGO_TARGET_DIR", target.path()).show(Show::Everything).run()?.required()?;
    tally.pass(job.workspace.libraries().count() as u64);
    Ok(())
}
