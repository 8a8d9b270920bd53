//! Half a minute of storm over every backend, on each deployment that it names.

use super::Job;
use crate::backend;
use crate::call::{Call, Show};
use crate::conformance::Suite;
use crate::score::Score;
use crate::servers::Loan;
use crate::storm;
use crate::tally::Tally;
use crate::trouble::Result;

/// How long, on each.
const LASTS: &str = "30s";
const LASTS_WHEN_DEEP: &str = "20m";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = Suite::among_all(&job.workspace)?;
    let lasts = if job.deep { LASTS_WHEN_DEEP } else { LASTS };
    let call = || suite.call().args(["--storm", lasts]);
    for backend in backend::called("all")? {
        if backend.deployments.is_empty() {
            let call = call().args(["--backend", storm::in_real_time(backend)]);
            note(backend.name, play(job, backend.name, call, tally), tally);
        }
        for name in backend.deployments {
            let played = Loan::of(name)
                .and_then(|loan| play(job, name, storm::on_loan(call(), backend, &loan)?, tally));
            note(name, played, tally);
        }
    }
    Ok(())
}

/// One deployment that could not be stormed keeps no other from it.
fn note(over: &str, outcome: Result<()>, tally: &mut Tally) {
    if let Err(trouble) = outcome {
        println!("{trouble}");
        tally.fail(format!("storm over {over}: {}", trouble.to_string().lines().next().unwrap_or_default()));
    }
}

/// One storm is one unit, however many rounds it had.
fn play(job: &Job, over: &str, call: Call, tally: &mut Tally) -> Result<()> {
    let outcome = call.limit(job.limit(300)).show(Show::Everything).run()?;
    let score = Score::of(&outcome.stdout).ok_or_else(|| outcome.trouble())?;
    tally.fact("rounds of storm", score.passed + score.failed);
    match score.failed {
        0 => outcome.required().map(|_| tally.pass(1)),
        _ => {
            let broken = outcome.stdout.lines().find_map(|line| line.strip_prefix("FAIL "));
            tally.fail(format!("storm over {over}: {}", broken.unwrap_or("a promise was broken")));
            Ok(())
        }
    }
}
