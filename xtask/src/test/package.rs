//! Checks what would be published: packages all libraries together, and compiles them from their packages with the oldest
//! Rust that they promise, with all of their features that compile with it.
//!
//! Once, because features add code: what they replace is a line or two for each, which `features` compiles with the pinned
//! Rust.
//!
//! Cargo could compile them itself, but it builds the libraries one after another with all dependencies, and does not
//! keep the result. So they are unpacked into a workspace of their own, which the steps `features` and `pages` use too.
//! With the pinned Rust, which is the oldest of some, `features` compiles each of them alone.

use std::fs;
use std::path::{Path, PathBuf};

use super::Job;
use crate::call::{Call, Show};
use crate::cargo;
use crate::place::{self, Scratch};
use crate::tally::Tally;
use crate::trouble::{Result, While};
use crate::workspace::{Package, Workspace};

/// The libraries as their users get them, in a workspace of their own.
pub(super) struct Packages {
    folder: Scratch,
    /// The workspace's target folder.
    target: PathBuf,
}

/// Takes a C compiler's place: what the oldest Rust reads does not depend on the C code of the TLS libraries, which takes a
/// minute. The workspace's own build compiles it.
const NO_COMPILER: &str = "xtask/src/test/no_compiler.sh";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let packages = job.packages()?;
    let pinned = job.workspace.pinned_rust()?;
    for rust in job.workspace.promised_rusts()?.iter().filter(|rust| **rust != pinned) {
        let promise = |library: &&Package| library.oldest_rust().as_ref() == Some(rust);
        let libraries: Vec<&Package> = job.workspace.libraries().filter(promise).collect();
        match check(packages, job, rust, &libraries) {
            Ok(()) => tally.pass(libraries.len() as u64),
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("the packages with Rust {rust}"));
            }
        }
    }
    Ok(())
}

/// Checks these libraries together. What each of them needs of its dependencies, alone, is for the step `features`.
fn check(packages: &Packages, job: &Job, rust: &str, libraries: &[&Package]) -> Result<()> {
    let mut call = packages.check_with(rust, &job.workspace).arg("--lib");
    for library in libraries {
        call = call.args(["--package", &library.name]);
        for feature in job.workspace.features_for_oldest_rust(library) {
            call = call.args(["--features", &format!("{}/{feature}", library.name)]);
        }
    }
    call.show(Show::Everything).run()?.required().map(drop)
}

impl Packages {
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let folder = Scratch::new("packages")?;
        pack(workspace, &folder.path().join("packed"))?;
        let packages = Self { folder, target: workspace.target.clone() };
        // The same profile as the workspace, where many dependencies are already built, with all of their C code.
        let own = workspace.root.join("Cargo.toml");
        let own = fs::read_to_string(&own).when(|| format!("read {}", own.display()))?;
        let mut manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n{}\n[patch.crates-io]\n",
            profile(&own)
        );
        for library in workspace.libraries() {
            let name = format!("{}-{}", library.name, library.version);
            packages.unpack(&name)?;
            manifest.push_str(&format!("{} = {{ path = \"crates/{name}\" }}\n", library.name));
        }
        let root = packages.folder.path();
        place::write(&root.join("Cargo.toml"), &manifest)?;
        // The same versions as in the workspace, even when newer ones are out, and the same compiler and lints.
        for name in ["Cargo.lock", "rust-toolchain.toml", "clippy.toml"] {
            let file = workspace.root.join(name);
            fs::copy(&file, root.join(name)).when(|| format!("copy {}", file.display()))?;
        }
        Ok(packages)
    }

    /// The path at which a crate becomes a member of that workspace.
    pub(super) fn member(&self, name: &str) -> PathBuf {
        self.folder.path().join("crates").join(name)
    }

    pub(super) fn cargo(&self, verb: &str) -> Call {
        Self::into_target(cargo::call(self.folder.path()).arg(verb), &self.target)
    }

    /// Cargo with an older compiler, which checks and links nothing. It has a target folder of its own: two compilers in one
    /// folder would rebuild everything in turn.
    fn check_with(&self, toolchain: &str, workspace: &Workspace) -> Call {
        let call = cargo::call_of(toolchain, self.folder.path()).arg("check");
        let call = Self::into_target(call, &self.target.join("oldest-rust"));
        if cfg!(unix) { call.env("CC", workspace.root.join(NO_COMPILER)) } else { call }
    }

    /// What is only checked, or run once, needs no more than that.
    fn into_target(call: Call, target: &Path) -> Call {
        let call = call.env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
        call.env("CARGO_PROFILE_DEV_DEBUG", "false")
    }

    fn unpack(&self, name: &str) -> Result<()> {
        let into = self.folder.path().join("crates");
        fs::create_dir_all(&into).when(|| format!("make the folder {}", into.display()))?;
        let packed = self.folder.path().join(format!("packed/package/{name}.crate"));
        // `m` sets new file times: the files of all packages have the same old time, and cargo would take new ones for
        // those already built.
        let call = Call::new("tar").arg("-xzmf").arg(packed).arg("-C").arg(into);
        call.run()?.required().map(drop)
    }
}

/// The tables of the profile `dev` in a manifest.
fn profile(manifest: &str) -> String {
    let mut is_wanted = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_wanted = line.starts_with("[profile.dev");
        }
        is_wanted
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn pack(workspace: &Workspace, target: &Path) -> Result<()> {
    // Uncommitted changes are packaged too: this is a test, not a release. A lock file for each package would ask the
    // registry, and nobody who depends on a library reads it.
    let flags = ["package", "--allow-dirty", "--no-verify", "--exclude-lockfile"];
    let mut call = cargo::call(&workspace.root).args(flags);
    for package in workspace.libraries() {
        call = call.args(["--package", &package.name]);
    }
    call.env("CARGO_TARGET_DIR", target).show(Show::Everything).run()?.required().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_profile_of_a_build_is_taken_over() {
        let manifest = "[workspace]\na = 1\n[profile.dev]\nb = 2\n[profile.dev.package.x]\nc = 3\n[profile.test]\nd = 4\n";
        assert_eq!(profile(manifest), "[profile.dev]\nb = 2\n[profile.dev.package.x]\nc = 3\n");
    }
}
