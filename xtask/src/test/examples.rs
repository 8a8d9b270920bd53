//! Runs every example of every crate. An example must end by itself, within a time limit, without an error. An example
//! of a backend that needs a server gets the URL of one.
//!
//! They are built with the test profile, so that their dependencies are not built twice.

use std::time::{Duration, Instant};

use super::Job;
use crate::backend;
use crate::call::{Call, Show};
use crate::cargo::{self, Artifact};
use crate::servers::Loan;
use crate::tally::Tally;
use crate::trouble::Result;

const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let expected: usize = job.workspace.packages.iter().map(|package| package.examples.len()).sum();
    let call =
        cargo::call(&job.workspace.root).args(["build", "--workspace", "--all-features", "--examples"]);
    let call = call.args(["--profile", "test", "--message-format=json-render-diagnostics"]);
    let built = call.show(Show::Stderr).run()?.required()?;
    let examples = cargo::artifacts(&built.stdout).into_iter().filter(|artifact| artifact.kind == "example");
    let examples: Vec<Artifact> = examples.collect();
    if examples.len() != expected || examples.is_empty() {
        return Err(
            format!("cargo built {} of the {expected} examples in the manifests", examples.len()).into()
        );
    }
    for example in &examples {
        let server = server_for(job, example)?;
        run_one(job, example, server.as_ref(), tally)?;
    }
    Ok(())
}

/// The server that an example needs.
fn server_for(job: &Job, example: &Artifact) -> Result<Option<Loan>> {
    for backend in backend::called("all")? {
        if let [deployment, ..] = backend.deployments
            && job.workspace.package(&format!("tidelock-{}", backend.name))?.dir == example.folder
        {
            return Loan::of(deployment).map(Some);
        }
    }
    Ok(None)
}

fn run_one(job: &Job, example: &Artifact, server: Option<&Loan>, tally: &mut Tally) -> Result<()> {
    let began = Instant::now();
    let call = Call::new(&example.executable).args(server.map(Loan::url));
    let outcome = call.dir(&job.workspace.root).limit(LIMIT).run()?;
    if outcome.success() {
        println!("ok {} ({:.1} s)", example.target, began.elapsed().as_secs_f32());
        tally.pass(1);
    } else {
        println!("FAILED {}: {}\n{}", example.target, outcome.trouble(), outcome.tail(400));
        tally.fail(format!("example {}", example.target));
    }
    Ok(())
}
