//! The backends' own tests that need a server, and are ignored elsewhere. For each backend, all its deployments are
//! started once.
//!
//! Such a test finds its server in an environment variable: `TIDELOCK_REDIS_SENTINEL_URL` for `redis-sentinel`. The
//! test programs are those that the step `tests` has built: with fewer packages in one build, their dependencies would
//! have other features, and be built again.

use std::path::Path;

use super::Job;
use crate::backend::{self, Backend};
use crate::call::{Call, Show};
use crate::cargo::{self, Artifact};
use crate::libtest;
use crate::servers::Loan;
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Package;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let programs = programs(job)?;
    for backend in backend::called("all")?.iter().filter(|backend| backend.has_servers()) {
        if let Err(trouble) = own_tests(job, backend, &programs, tally) {
            println!("{trouble}"); // and the others continue
            tally.fail(format!("servers: {}", trouble.first_line()));
        }
    }
    Ok(())
}

fn own_tests(job: &Job, backend: &Backend, programs: &[Artifact], tally: &mut Tally) -> Result<()> {
    let package = job.workspace.package(&backend.package())?;
    let names = backend.deployments.iter().chain(backend.others);
    let loans = names.map(|name| Loan::of(name)).collect::<Result<Vec<_>>>()?;
    let tried_before = tally.units();
    for program in programs.iter().filter(|program| program.folder == package.dir) {
        run_program(job, package, &program.executable, &loans, tally)?;
    }
    if tally.units() == tried_before {
        return Err(format!("no test of {} is marked as needing a server", package.name).into());
    }
    Ok(())
}

/// The test programs of all packages.
fn programs(job: &Job) -> Result<Vec<Artifact>> {
    let call = cargo::call(&job.workspace.root).args(["test", "--workspace", "--all-features", "--no-run"]);
    let call = call.arg("--message-format=json-render-diagnostics");
    let built = call.show(Show::Stderr).run()?.required()?;
    Ok(cargo::artifacts(&built.stdout).into_iter().filter(|artifact| artifact.is_test).collect())
}

fn run_program(
    job: &Job,
    package: &Package,
    program: &Path,
    loans: &[Loan],
    tally: &mut Tally,
) -> Result<()> {
    let call = Call::new(program).arg("--ignored").dir(&package.dir).limit(job.limit(600));
    let call = loans.iter().fold(call, |call, loan| call.env(&variable(loan.name()), loan.url()));
    let run = job.as_deep(call).show(Show::Some(libtest::is_result)).run()?;
    if !run.success() {
        println!("{}", run.text);
    }
    libtest::count(&run, tally)
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
