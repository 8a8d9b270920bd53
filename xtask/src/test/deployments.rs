//! The contract on every deployment of every backend, on servers that are started for it.
//!
//! As many deployments have their turn at once as there are cores, because the trials mostly wait; when the machine
//! itself stands still for a moment, the suite extends the trials' bounds by that. With one more, or with two busy ones at
//! once, trials ran out of time on a machine that was half as fast. What a run has to say is printed when it
//! has ended.

use std::time::Duration;

use super::{Job, contract};
use crate::backend::{self, Backend};
use crate::call::Outcome;
use crate::conformance::Suite;
use crate::crew;
use crate::servers::Loan;
use crate::tally::Tally;
use crate::trouble::Result;

/// How long one run may take.
const LIMIT: u64 = 1800;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = job.suite()?;
    let all = backend::called("all")?;
    let of_each = |backend: &'static Backend| backend.deployments.iter().map(move |name| (backend, *name));
    let deployments: Vec<(&Backend, &str)> = all.into_iter().flat_map(of_each).collect();
    let (busy, light): (Vec<_>, Vec<_>) =
        deployments.into_iter().partition(|(backend, name)| backend.busy.contains(name));
    let deployments = [busy.as_slice(), &light].concat();
    let (deep, limit) = (job.deep, job.limit(LIMIT));
    crew::run_apart(
        busy.len(),
        &deployments,
        |(backend, name)| play(suite, backend, name, deep, limit),
        |(_, name), outcome| {
            let told = outcome.and_then(|outcome| contract::tell(name, &outcome, tally));
            if let Err(trouble) = told {
                println!("{trouble}"); // the others continue
                tally.fail(format!("the contract on {name}: {}", trouble.first_line()));
            }
        },
    );
    Ok(())
}

fn play(suite: &Suite, backend: &Backend, name: &str, deep: bool, limit: Duration) -> Result<Outcome> {
    let loan = Loan::of(name)?;
    let call = suite.on_loan(backend, &loan, &suite.report(name), deep)?;
    super::in_full(call, deep).limit(limit).run()
}
