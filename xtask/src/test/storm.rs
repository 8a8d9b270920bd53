//! Half a minute of storm over every backend, on each of its deployments.

use std::thread;

use super::Job;
use crate::backend::{self, Backend};
use crate::call::{Call, Outcome};
use crate::conformance::{REAL_TIME, Suite};
use crate::score::Score;
use crate::servers::Loan;
use crate::storm;
use crate::tally::Tally;
use crate::trouble::{Result, Trouble};

/// How long each storm lasts.
const LASTS: &str = "30s";
const LASTS_WHEN_DEEP: &str = "20m";

/// How many storms run at once. They mostly wait, and a delay from one is just another fault for the other.
const AT_ONCE: usize = 2;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = Suite::among_all(&job.workspace)?;
    let storms: Vec<Over> = backend::called("all")?.into_iter().flat_map(Over::all).collect();
    let lasts = if job.deep { LASTS_WHEN_DEEP } else { LASTS };
    let limit = job.limit(300);
    let play = |over: Over| over.play(suite.call(over.backend)?.args(["--storm", lasts]).limit(limit));
    for together in storms.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let playing = together.iter().map(|over| (over.name(), scope.spawn(|| play(*over))));
            for (name, storm) in playing.collect::<Vec<_>>() {
                let outcome = storm.join().unwrap_or_else(|_| Err("it panicked".into()));
                if let Err(trouble) = outcome.and_then(|outcome| count(name, &outcome, tally)) {
                    println!("{trouble}"); // and the others continue
                    tally.fail(format!("storm over {name}: {}", first_line(&trouble)));
                }
            }
        });
    }
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

fn first_line(trouble: &Trouble) -> String {
    trouble.to_string().lines().next().unwrap_or_default().to_owned()
}
