//! The contract on the backends that need no server, with and without a linger, and the proof that the suite can fail.

use super::{Job, contract};
use crate::backend;
use crate::tally::Tally;
use crate::trouble::Result;

/// In ms. The table is about the default, which is zero.
const LINGER: &str = "10";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = job.suite()?;
    for backend in backend::called("all")?.iter().filter(|backend| !backend.has_servers()) {
        let call = suite.on(backend, None, &suite.report(backend.name))?;
        contract::play(job, backend.name, job.in_full(call), tally)?;
        let lingering = format!("{} with a linger of {LINGER} ms", backend.name);
        let call = suite.on(backend, None, &suite.report("lingering"))?.args(["--linger", LINGER]);
        contract::play(job, &lingering, job.in_full(call), tally)?;
    }
    contract::play(job, "backends broken on purpose", suite.any()?.arg("--prove"), tally)
}
