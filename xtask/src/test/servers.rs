//! The backends' own tests that need a server, and are ignored elsewhere. For each backend, all its deployments are
//! started once.
//!
//! Such a test finds its server in an environment variable: `TIDELOCK_REDIS_SENTINEL_URL` for `redis-sentinel`. The
//! test programs are those that the step `tests` has built: with fewer packages in one build, their dependencies would
//! have other features, and be built again. As many backends have their turn at once as there are cores, because these
//! tests mostly wait, for servers that start and fail over. What they have to say is printed when they have ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Job;
use crate::backend::{self, Backend};
use crate::call::{Call, Outcome, Show};
use crate::cargo::{self, Artifact};
use crate::crew;
use crate::libtest;
use crate::servers::Loan;
use crate::tally::Tally;
use crate::trouble::Result;

/// How long one test program may take.
const LIMIT: u64 = 600;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let built = programs(job)?;
    let backends = backend::called("all")?.into_iter().filter(|backend| backend.has_servers());
    let all = backends.map(|backend| OwnTests::of(job, backend, &built)).collect::<Result<Vec<_>>>()?;
    crew::run_all(&all, OwnTests::run, |tests, outcomes| {
        if let Err(trouble) = outcomes.and_then(|outcomes| tests.tell(&outcomes, tally)) {
            println!("{trouble}"); // and the others continue
            tally.fail(format!("servers: {}", trouble.first_line()));
        }
    });
    Ok(())
}

/// The tests of one backend's crate.
struct OwnTests {
    backend: &'static Backend,
    folder: PathBuf,
    programs: Vec<PathBuf>,
    deep: bool,
    limit: Duration,
}

impl OwnTests {
    fn of(job: &Job, backend: &'static Backend, built: &[Artifact]) -> Result<Self> {
        let folder = job.workspace.package(&backend.package())?.dir.clone();
        let own = built.iter().filter(|artifact| artifact.folder == folder);
        let programs = own.map(|artifact| artifact.executable.clone()).collect();
        Ok(Self { backend, folder, programs, deep: job.deep, limit: job.limit(LIMIT) })
    }

    fn run(&self) -> Result<Vec<Outcome>> {
        let names = self.backend.deployments.iter().chain(self.backend.others);
        let loans = names.map(|name| Loan::of(name)).collect::<Result<Vec<_>>>()?;
        self.programs.iter().map(|program| self.call(program, &loans).run()).collect()
    }

    fn call(&self, program: &Path, loans: &[Loan]) -> Call {
        let call = Call::new(program).arg("--ignored").dir(&self.folder).limit(self.limit);
        let call = loans.iter().fold(call, |call, loan| call.env(&variable(loan.name()), loan.url()));
        super::as_deep(call, self.deep)
    }

    fn tell(&self, outcomes: &[Outcome], tally: &mut Tally) -> Result<()> {
        let tried_before = tally.units();
        for outcome in outcomes {
            match outcome.success() {
                true => outcome
                    .text
                    .lines()
                    .filter(|line| libtest::is_result(line))
                    .for_each(|line| println!("{line}")),
                false => println!("{}", outcome.text),
            }
            libtest::count(outcome, tally)?;
        }
        if tally.units() == tried_before {
            return Err(format!("no test of {} is marked as needing a server", self.backend.package()).into());
        }
        Ok(())
    }
}

/// The test programs of all packages.
fn programs(job: &Job) -> Result<Vec<Artifact>> {
    let call = cargo::call(&job.workspace.root).args(["test", "--workspace", "--all-features", "--no-run"]);
    let call = call.arg("--message-format=json-render-diagnostics");
    let built = call.show(Show::Stderr).run()?.required()?;
    Ok(cargo::artifacts(&built.stdout).into_iter().filter(|artifact| artifact.is_test).collect())
}

/// The environment variable with the URL of a deployment.
fn variable(deployment: &str) -> String {
    format!("TIDELOCK_{}_URL", deployment.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_has_a_variable_of_its_own() {
        assert_eq!(variable("redis"), "TIDELOCK_REDIS_URL");
        assert_eq!(variable("redis-sentinel"), "TIDELOCK_REDIS_SENTINEL_URL");
    }
}
