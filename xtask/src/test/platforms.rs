//! The libraries elsewhere: on the web, on other systems, with the oldest Rust that they promise.

use super::Job;
use crate::call::{Call, Show};
use crate::cargo;
use crate::setup::rust;
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Package;

/// What runs in the browser.
const ON_THE_WEB: &[&str] = &["tidelock-model"];
/// Features that bring C along, for which there is no compiler of the other system here.
const WITH_C: &[&str] = &["tls"];

pub(super) fn systems(job: &Job, tally: &mut Tally) -> Result<()> {
    let libraries: Vec<&str> = job.workspace.libraries().map(|package| package.name.as_str()).collect();
    let web = [(rust::WEB, ON_THE_WEB)];
    let systems = rust::OTHER_SYSTEMS.map(|target| (target, libraries.as_slice()));
    for (target, packages) in web.into_iter().chain(systems) {
        match check_for(job, target, packages) {
            Ok(()) => tally.pass(1),
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("{} for {target}", packages.join(", ")));
            }
        }
    }
    Ok(())
}

fn check_for(job: &Job, target: &str, packages: &[&str]) -> Result<()> {
    rust::target(&job.workspace, target)?;
    let features = features_without_c(job, packages).join(",");
    let call = check(cargo::call(&job.workspace.root), packages).args(["--target", target]);
    call.args(["--features", &features]).run()?.required().map(drop)
}

/// `tidelock-redis/cluster` and the like.
fn features_without_c(job: &Job, packages: &[&str]) -> Vec<String> {
    let chosen = job.workspace.libraries().filter(|package| packages.contains(&package.name.as_str()));
    let of_one = |package: &Package| {
        let features = package.features.keys().filter(|feature| !WITH_C.contains(&feature.as_str()));
        features.map(|feature| format!("{}/{feature}", package.name)).collect::<Vec<_>>()
    };
    chosen.flat_map(of_one).collect()
}

pub(super) fn oldest_rust(job: &Job, tally: &mut Tally) -> Result<()> {
    let oldest = job.workspace.oldest_rust()?;
    let differs = |package: &&Package| package.oldest_rust().as_ref() != Some(&oldest);
    if let Some(package) = job.workspace.libraries().find(differs) {
        return Err(format!("{} does not promise Rust {oldest} like the others", package.name).into());
    }
    rust::toolchain(&oldest)?;
    let libraries: Vec<&str> = job.workspace.libraries().map(|package| package.name.as_str()).collect();
    // A folder of its own: two compilers in one would rebuild everything in turn.
    let call = cargo::call_of(&oldest, &job.workspace.root)
        .env("CARGO_TARGET_DIR", job.workspace.target.join("oldest-rust"));
    check(call, &libraries).arg("--all-features").run()?.required()?;
    println!("builds with Rust {oldest}");
    tally.pass(1);
    Ok(())
}

fn check(call: Call, packages: &[&str]) -> Call {
    let call = call.arg("check").show(Show::Everything);
    packages.iter().fold(call, |call, package| call.args(["--package", package]))
}
