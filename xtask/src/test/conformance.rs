//! The contract on the backends that need no server, and the proof that the suite can fail.

use super::{Job, contract};
use crate::backend;
use crate::conformance::Suite;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = Suite::among_all(&job.workspace)?;
    for backend in backend::called("all")?.iter().filter(|backend| !backend.has_servers()) {
        let report = suite.report(backend.name);
        let call = suite.on(backend, None, &report)?;
        contract::keep(job, backend.name, call, report, tally)?;
    }
    contract::play(job, "backends broken on purpose", suite.any()?.arg("--prove"), tally)
}
