//! The documentation of the libraries, with warnings (a dead link, a missing page) as errors.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let call = cargo::call(&job.workspace.root).args(["doc", "--no-deps", "--lib"]).args(cargo::AMONG_ALL);
    call.env("RUSTDOCFLAGS", "-D warnings").show(Show::Everything).run()?.required()?;
    tally.pass(1);
    Ok(())
}
