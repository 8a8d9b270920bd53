//! The contract on the backends that need no server, and the proof that the suite can fail.

use super::{Job, contract};
use crate::backend;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = job.suite()?;
    for backend in backend::called("all")?.iter().filter(|backend| !backend.has_servers()) {
        let call = suite.on(backend, None, &suite.report(backend.name))?;
        contract::play(job, backend.name, job.in_full(call), tally)?;
        job.reports.borrow_mut().insert(backend.name);
    }
    contract::play(job, "backends broken on purpose", suite.any()?.arg("--prove"), tally)
}
