//! Checks what would be published: packages all libraries together, and compiles each from its package with the oldest
//! Rust that it promises.
//!
//! Cargo could compile them itself, but it builds the libraries one after another with all dependencies, and does not
//! keep the result. So they are unpacked into a workspace of their own, which the step `pages` uses too.

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
    target: PathBuf,
}

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let packages = job.packages()?;
    for library in job.workspace.libraries() {
        let oldest = library.oldest_rust().ok_or_else(|| format!("{} promises no Rust", library.name))?;
        match check(packages, library, &oldest) {
            Ok(()) => tally.pass(1),
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("the package of {} with Rust {oldest}", library.name));
            }
        }
    }
    for rust in job.workspace.promised_rusts()? {
        check_all_features(packages, &job.workspace, &rust)?;
        tally.pass(1);
    }
    Ok(())
}

/// Checks a library alone: with others, it might depend on features that only they turn on.
fn check(packages: &Packages, library: &Package, oldest: &str) -> Result<()> {
    let call = packages.cargo_of(oldest, "check").args(["--package", &library.name]);
    call.show(Show::Everything).run()?.required().map(drop)
}

/// Checks together, with all of their features, the libraries for which this is the oldest Rust then.
fn check_all_features(packages: &Packages, workspace: &Workspace, rust: &str) -> Result<()> {
    let is_for_it = |library: &&Package| workspace.rust_for_all_features(library).as_deref() == Some(rust);
    let names = workspace.libraries().filter(is_for_it).map(|library| &library.name);
    let call = packages.cargo_of(rust, "check").args(["--lib", "--all-features"]);
    let call = names.fold(call, |call, name| call.args(["--package", name]));
    call.show(Show::Everything).run()?.required().map(drop)
}

impl Packages {
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let folder = Scratch::new("packages")?;
        pack(workspace, &folder.path().join("packed"))?;
        let packages = Self { folder, target: workspace.target.clone() };
        // The same profile as the workspace, where most dependencies are already built.
        let mut manifest = String::from(
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n\
             [profile.dev]\ndebug = false\nincremental = false\nlto = \"off\"\n\n\
             [profile.dev.package]\nredis.opt-level = 1\ntokio.opt-level = 1\n\n[patch.crates-io]\n",
        );
        for library in workspace.libraries() {
            let name = format!("{}-{}", library.name, library.version);
            packages.unpack(&name)?;
            manifest.push_str(&format!("{} = {{ path = \"crates/{name}\" }}\n", library.name));
        }
        let root = packages.folder.path();
        place::write(&root.join("Cargo.toml"), &manifest)?;
        // The same versions as in the workspace, even when newer ones are out.
        let lock = workspace.root.join("Cargo.lock");
        fs::copy(&lock, root.join("Cargo.lock")).when(|| format!("copy {}", lock.display()))?;
        Ok(packages)
    }

    /// The path at which a crate becomes a member of that workspace.
    pub(super) fn member(&self, name: &str) -> PathBuf {
        self.folder.path().join("crates").join(name)
    }

    pub(super) fn cargo(&self, verb: &str) -> Call {
        cargo::call(self.folder.path()).arg(verb).env("CARGO_TARGET_DIR", &self.target)
    }

    /// Cargo with another compiler and its own target folder: two compilers in one folder would rebuild everything in
    /// turn.
    fn cargo_of(&self, toolchain: &str, verb: &str) -> Call {
        let call = cargo::call_of(toolchain, self.folder.path()).arg(verb);
        call.env("CARGO_TARGET_DIR", self.target.join("oldest-rust"))
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

fn pack(workspace: &Workspace, target: &Path) -> Result<()> {
    // Uncommitted changes are packaged too: this is a test, not a release.
    let mut call = cargo::call(&workspace.root).args(["package", "--allow-dirty", "--no-verify"]);
    for package in workspace.libraries() {
        call = call.args(["--package", &package.name]);
    }
    call.env("CARGO_TARGET_DIR", target).show(Show::Everything).run()?.required().map(drop)
}
