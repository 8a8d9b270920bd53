//! Compiles the libraries for the web and for other systems.

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::setup::rust;
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Package;

/// The libraries that run in the browser.
const ON_THE_WEB: &[&str] = &["tidelock-model"];
/// What the names of features with C code end in: there is no cross compiler for it here.
const WITH_C: &str = "tls";

pub(super) fn systems(job: &Job, tally: &mut Tally) -> Result<()> {
    let libraries: Vec<&str> = job.workspace.libraries().map(|package| package.name.as_str()).collect();
    for (targets, packages) in [(&[rust::WEB][..], ON_THE_WEB), (&rust::OTHER_SYSTEMS, &libraries)] {
        match check_for(job, targets, packages) {
            Ok(()) => tally.pass(targets.len() as u64),
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("{} for {}", packages.join(", "), targets.join(" or ")));
            }
        }
    }
    Ok(())
}

/// All targets at once: build scripts and macros are built once, and the targets build in parallel.
fn check_for(job: &Job, targets: &[&str], packages: &[&str]) -> Result<()> {
    let mut call = cargo::call(&job.workspace.root).arg("check").show(Show::Everything);
    for target in targets {
        call = call.args(["--target", target]);
    }
    call = packages.iter().fold(call, |call, package| call.args(["--package", package]));
    call.args(["--features", &features_without_c(job, packages).join(",")]).run()?.required().map(drop)
}

/// `tidelock-redis/cluster` and the like.
fn features_without_c(job: &Job, packages: &[&str]) -> Vec<String> {
    let chosen = job.workspace.libraries().filter(|package| packages.contains(&package.name.as_str()));
    let of_one = |package: &Package| {
        let features = package.features.keys().filter(|feature| !feature.ends_with(WITH_C));
        features.map(|feature| format!("{}/{feature}", package.name)).collect::<Vec<_>>()
    };
    chosen.flat_map(of_one).collect()
}
