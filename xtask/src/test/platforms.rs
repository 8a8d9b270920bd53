//! Compiles the model for the web, and for other systems the libraries that depend on the system.
//!
//! Those are the libraries whose text speaks of it. The code of any other is the same on every system, and so is what it
//! may call of the standard library without a word of [`WORDS`]. Whether what it depends on compiles elsewhere is for
//! those who wrote that, and for `--deep`, which compiles all libraries: in a new clone that takes four times as long.

use std::fs;

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::place;
use crate::setup::rust;
use crate::tally::Tally;
use crate::trouble::{Result, While};
use crate::workspace::Package;

/// The libraries that run in the browser.
const ON_THE_WEB: &[&str] = &["tidelock-model"];
/// What the names of features with C code end in: there is no cross compiler for it here.
const WITH_C: &str = "tls";
/// One of them is in the source or the manifest of whatever is not the same on every system: a condition, a dependency
/// or an item that only some systems have.
const WORDS: [&str; 15] = [
    "(unix",
    " unix)",
    "(windows",
    " windows)",
    "target_os",
    "target_family",
    "target_arch",
    "target_env",
    "std::os",
    "os::fd",
    "unix::",
    "rustix",
    "libc",
    "UnixStream",
    "UnixListener",
];

pub(super) fn systems(job: &Job, tally: &mut Tally) -> Result<()> {
    let elsewhere = for_other_systems(job)?;
    for (targets, packages) in [(&[rust::WEB][..], ON_THE_WEB), (&rust::OTHER_SYSTEMS, &elsewhere)] {
        match check_for(job, targets, packages) {
            Ok(()) => {
                println!("ok {} for {}", packages.join(", "), targets.join(" and "));
                tally.pass(targets.len() as u64);
            }
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("{} for {}", packages.join(", "), targets.join(" or ")));
            }
        }
    }
    Ok(())
}

/// The libraries that are compiled for other systems.
fn for_other_systems(job: &Job) -> Result<Vec<&str>> {
    let mut chosen = Vec::new();
    for library in job.workspace.libraries() {
        let manifest = library.dir.join("Cargo.toml");
        let manifest = fs::read_to_string(&manifest).when(|| format!("read {}", manifest.display()))?;
        if job.deep || speaks_of_system(&manifest) || speaks_of_system(&place::sources_of(&library.dir)?) {
            chosen.push(library.name.as_str());
        }
    }
    match chosen.is_empty() {
        true => Err("no library depends on the system: core's clock does".into()),
        false => Ok(chosen),
    }
}

fn speaks_of_system(text: &str) -> bool {
    WORDS.iter().any(|word| text.contains(word))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_or_an_item_of_some_systems_is_seen() {
        for text in [
            "#[cfg(not(unix))]",
            "if cfg!(windows) {",
            "#[cfg(all(test, unix))]",
            "[target.'cfg(unix)'.dependencies]",
            "use std::os::fd::AsFd;",
            "use std::{fs, os::fd::AsFd};",
            "use tokio::signal::unix::signal;",
        ] {
            assert!(speaks_of_system(text), "{text}");
        }
        for text in ["#[cfg(tidelock_loom)]", "`redis+unix://` and Unix sockets", "SystemTime::UNIX_EPOCH"] {
            assert!(!speaks_of_system(text), "{text}");
        }
    }
}
