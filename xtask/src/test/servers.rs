//! The backends' own tests that need a server, and are ignored elsewhere. For each backend, all its deployments are
//! started once. As many backends have their turn at once as there are cores, because the tests mostly wait; and beside
//! them the comparison of a backend with the model, which only needs a server, and no answer in time.
//!
//! Such a test finds its server in an environment variable: `TIDELOCK_REDIS_SENTINEL_URL` for `redis-sentinel`. The
//! test programs are those that the step `tests` has built: with fewer packages in one build, their dependencies would
//! have other features, and be built again.

use std::path::Path;
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
use crate::workspace::{Package, Workspace};

/// The name of a backend's program that compares it with the model.
const COMPARISON: &str = "model";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let programs = job.test_programs()?;
    let mut turns = [Vec::new(), Vec::new()];
    let backends = backend::called("all")?.into_iter().filter(|backend| backend.has_servers());
    for (number, backend) in backends.enumerate() {
        let [tests, comparison] = OwnTests::of(backend, job, programs)?;
        // Far from each other: each deployment is lent to one of them at a time.
        turns[number % 2].push(tests);
        turns[1 - number % 2].push(comparison);
    }
    crew::run_waiting(1, &turns.concat(), OwnTests::run, |own, runs| {
        if let Err(trouble) = runs.and_then(|runs| own.count(&runs, tally)) {
            println!("{trouble}"); // and the others continue
            tally.fail(format!("servers: {}", trouble.first_line()));
        }
    });
    Ok(())
}

/// Some of a backend's own tests, and the deployments that they use.
#[derive(Clone)]
struct OwnTests<'a> {
    package: &'a Package,
    programs: Vec<&'a Path>,
    deployments: Vec<&'static str>,
    deep: bool,
    limit: Duration,
}

impl<'a> OwnTests<'a> {
    /// All but the comparison with the model, and the comparison.
    fn of(backend: &'a Backend, job: &'a Job, programs: &'a [Artifact]) -> Result<[Self; 2]> {
        let package = job.workspace.package(&backend.package())?;
        let own = programs.iter().filter(|program| program.folder == package.dir);
        let (comparison, tests): (Vec<_>, Vec<_>) = own.partition(|program| program.target == COMPARISON);
        let some = |programs: Vec<&'a Artifact>, deployments| Self {
            package,
            programs: programs.into_iter().map(|program| program.executable.as_path()).collect(),
            deployments,
            deep: job.deep,
            limit: job.limit(600),
        };
        let all = [backend.deployments, backend.others].concat();
        Ok([some(tests, all), some(comparison, backend.deployments[..1].to_vec())])
    }

    /// Starts the servers, and runs one program after the other.
    fn run(&self) -> Result<Vec<Outcome>> {
        let loans = self.deployments.iter().map(|name| Loan::of(name)).collect::<Result<Vec<_>>>()?;
        let call = |program: &&Path| {
            let call = Call::new(program).arg("--ignored").dir(&self.package.dir).limit(self.limit);
            loans.iter().fold(call, |call, loan| call.env(&variable(loan.name()), loan.url()))
        };
        self.programs.iter().map(|program| super::explored(call(program), self.deep).run()).collect()
    }

    fn count(&self, runs: &[Outcome], tally: &mut Tally) -> Result<()> {
        println!("{} on {}:", self.package.name, self.deployments.join(", "));
        let tried_before = tally.units();
        for run in runs {
            match run.success() {
                true => run
                    .text
                    .lines()
                    .filter(|line| libtest::is_result(line))
                    .for_each(|line| println!("{line}")),
                false => println!("{}", run.text),
            }
            libtest::count(run, tally)?;
        }
        if tally.units() == tried_before {
            return Err(format!("no test of {} is marked as needing a server", self.package.name).into());
        }
        Ok(())
    }
}

/// The test programs of all packages.
pub(super) fn programs(workspace: &Workspace) -> Result<Vec<Artifact>> {
    let call = cargo::call(&workspace.root).args(["test", "--workspace", "--all-features", "--no-run"]);
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
