//! The backends' own tests that need a server, and are ignored elsewhere. For each backend, all its deployments are
//! started once. As many backends have their turn at once as there are cores, because the tests mostly wait.
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
use crate::workspace::Package;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let programs = programs(job)?;
    let backends = backend::called("all")?.into_iter().filter(|backend| backend.has_servers());
    let all = backends.map(|backend| OwnTests::of(backend, job, &programs)).collect::<Result<Vec<_>>>()?;
    crew::run_all(&all, OwnTests::run, |own, runs| {
        if let Err(trouble) = runs.and_then(|runs| own.count(&runs, tally)) {
            println!("{trouble}"); // and the others continue
            tally.fail(format!("servers: {}", trouble.first_line()));
        }
    });
    Ok(())
}

/// One backend's own tests.
struct OwnTests<'a> {
    backend: &'a Backend,
    package: &'a Package,
    programs: Vec<&'a Path>,
    deep: bool,
    limit: Duration,
}

impl<'a> OwnTests<'a> {
    fn of(backend: &'a Backend, job: &'a Job, programs: &'a [Artifact]) -> Result<Self> {
        let package = job.workspace.package(&backend.package())?;
        let own = programs.iter().filter(|program| program.folder == package.dir);
        let programs = own.map(|program| program.executable.as_path()).collect();
        Ok(Self { backend, package, programs, deep: job.deep, limit: job.limit(600) })
    }

    /// Starts the servers, and runs one program after the other.
    fn run(&self) -> Result<Vec<Outcome>> {
        let names = self.backend.deployments.iter().chain(self.backend.others);
        let loans = names.map(|name| Loan::of(name)).collect::<Result<Vec<_>>>()?;
        let call = |program: &&Path| {
            let call = Call::new(program).arg("--ignored").dir(&self.package.dir).limit(self.limit);
            loans.iter().fold(call, |call, loan| call.env(&variable(loan.name()), loan.url()))
        };
        self.programs.iter().map(|program| super::explored(call(program), self.deep).run()).collect()
    }

    fn count(&self, runs: &[Outcome], tally: &mut Tally) -> Result<()> {
        println!("{}:", self.package.name);
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
