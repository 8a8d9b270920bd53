//! Half a minute of storm over every backend, on each of its deployments.

use super::Job;
use crate::backend::{self, Backend};
use crate::call::{Call, Outcome};
use crate::conformance::REAL_TIME;
use crate::crew;
use crate::score::Score;
use crate::servers::Loan;
use crate::storm;
use crate::tally::Tally;
use crate::trouble::Result;

/// How long each storm lasts.
const LASTS: &str = "30s";
const LASTS_WHEN_DEEP: &str = "20m";

/// How many more storms than cores have their turn at once.
const MORE_THAN_CORES: usize = 3;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = job.suite()?;
    let storms: Vec<Over> = backend::called("all")?.into_iter().flat_map(Over::all).collect();
    let lasts = if job.deep { LASTS_WHEN_DEEP } else { LASTS };
    let limit = job.limit(300);
    // Storms mostly wait, and a delay from one is just another fault for the other.
    crew::run_waiting(
        MORE_THAN_CORES,
        &storms,
        |over| over.play(suite.call(over.backend)?.args(["--storm", lasts]).limit(limit)),
        |over, outcome| {
            let counted = outcome.and_then(|outcome| count(over.name(), &outcome, tally));
            if let Err(trouble) = counted {
                println!("{trouble}"); // and the others continue
                tally.fail(format!("storm over {}: {}", over.name(), trouble.first_line()));
            }
        },
    );
    Ok(())
}

/// The target of a storm: a backend without a server, or one on a deployment.
#[derive(Clone, Copy)]
struct Over {
    backend: &'static Backend,
    deployment: Option<&'static str>,
}

impl Over {
    fn all(backend: &'static Backend) -> Vec<Self> {
        match backend.deployments {
            [] => vec![Self { backend, deployment: None }],
            names => names.iter().map(|name| Self { backend, deployment: Some(name) }).collect(),
        }
    }

    fn name(&self) -> &'static str {
        self.deployment.unwrap_or(self.backend.name)
    }

    fn play(&self, call: Call) -> Result<Outcome> {
        let Some(deployment) = self.deployment else {
            return call.arg(REAL_TIME).run();
        };
        let loan = Loan::of(deployment)?;
        storm::on_loan(call, &loan)?.run()
    }
}

/// One storm is one unit, however many rounds it had.
fn count(over: &str, outcome: &Outcome, tally: &mut Tally) -> Result<()> {
    print!("{}", outcome.text);
    let score = Score::of(&outcome.stdout).ok_or_else(|| outcome.trouble())?;
    tally.fact("rounds of storm", score.passed + score.failed);
    if score.failed > 0 {
        let broken = outcome.stdout.lines().find_map(|line| line.strip_prefix("FAIL "));
        tally.fail(format!("storm over {over}: {}", broken.unwrap_or("a promise was broken")));
    } else if outcome.success() {
        tally.pass(1);
    } else {
        return Err(outcome.trouble());
    }
    Ok(())
}
