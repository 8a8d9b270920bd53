//! Calls cargo, and finds the programs it built.
//!
//! `cargo xtask` runs under cargo and rustup, which set environment variables for the current package and for the
//! toolchain in use. A cargo started from here must not see the package's, or build scripts look changed. It must see
//! the toolchain's, or another cargo may run.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tinyjson::JsonValue;

use crate::call::Call;
use crate::trouble::Result;
use crate::workspace::Package;

/// Selects the whole workspace in addition to the named part. With fewer packages, their dependencies have fewer
/// features and are built again. The example, a small one, includes the dependencies of tests.
pub(crate) const AMONG_ALL: &[&str] = &["--workspace", "--all-features", "--example", "first_lock"];

/// How long a build may take: a new clone on a slow machine.
const LIMIT: Duration = Duration::from_secs(3600);

pub(crate) fn call(root: &Path) -> Call {
    clean(Call::new("cargo")).dir(root).limit(LIMIT)
}

/// The cargo of another toolchain.
pub(crate) fn call_of(toolchain: &str, root: &Path) -> Call {
    clean(Call::new("rustup")).args(["run", toolchain, "cargo"]).dir(root).limit(LIMIT)
}

fn clean(mut call: Call) -> Call {
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy();
        if key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_") || key == "CARGO" {
            call = call.without_env(&key);
        }
    }
    call
}

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) target: String,
    pub(crate) kind: String,
    /// The folder of its package.
    pub(crate) folder: PathBuf,
    /// Whether it was built as a test.
    pub(crate) is_test: bool,
    pub(crate) executable: PathBuf,
}

/// The runnable artifacts in the output of `--message-format=json…`.
pub(crate) fn artifacts(json_lines: &str) -> Vec<Artifact> {
    json_lines.lines().filter(|line| line.starts_with('{')).filter_map(artifact).collect()
}

fn artifact(line: &str) -> Option<Artifact> {
    let message: JsonValue = line.parse().ok()?;
    let message = message.get::<HashMap<String, JsonValue>>()?;
    let executable = PathBuf::from(message.get("executable")?.get::<String>()?);
    let target = message.get("target")?;
    Some(Artifact {
        target: target["name"].get::<String>()?.clone(),
        kind: target["kind"][0].get::<String>()?.clone(),
        folder: Path::new(message.get("manifest_path")?.get::<String>()?).parent()?.to_owned(),
        is_test: *message.get("profile")?["test"].get::<bool>()?,
        executable,
    })
}

/// The names of what was compiled without an error, in the same output.
pub(crate) fn compiled(json_lines: &str) -> BTreeSet<String> {
    json_lines
        .lines()
        .filter_map(|line| {
            let message: JsonValue = line.parse().ok()?;
            let message = message.get::<HashMap<String, JsonValue>>()?;
            let is_artifact = message.get("reason")?.get::<String>()? == "compiler-artifact";
            is_artifact.then(|| message.get("target")?["name"].get::<String>().cloned())?
        })
        .collect()
}

/// Builds this selection, and returns the wanted programs.
///
/// Cargo runs twice. First it builds, with its progress on stderr, so that stdout stays free for the program. Then it
/// reports the programs' paths.
pub(crate) fn build_programs(
    root: &Path,
    selection: &[&str],
    is_wanted: impl Fn(&Artifact) -> bool,
) -> Result<Vec<Artifact>> {
    let build = || call(root).arg("build").args(selection);
    if !build().interactive()? {
        return Err("it does not build; see cargo's errors above".into());
    }
    let built = build().arg("--message-format=json").run()?.required()?;
    Ok(artifacts(&built.stdout).into_iter().filter(is_wanted).collect())
}

/// Builds the unit tests of these libraries, and returns the program of each. `call` is cargo, with the settings of the
/// build, and `selection` says among which packages: it decides which features the dependencies have.
pub(crate) fn build_unit_tests(call: Call, selection: &[&str], of: &[&Package]) -> Result<Vec<PathBuf>> {
    let call = call.args(["test", "--lib", "--no-run", "--message-format=json-render-diagnostics"]);
    let built = call.args(selection).run()?;
    if !built.success() {
        let errors = built.tail_of(40, |line| !line.starts_with('{'));
        return Err(format!("the unit tests do not build: {}\n{errors}", built.trouble()).into());
    }
    let found = artifacts(&built.stdout);
    let program = |package: &&Package| {
        let is_it = |artifact: &&Artifact| artifact.kind == "lib" && artifact.folder == package.dir;
        let found = found.iter().find(is_it).map(|artifact| artifact.executable.clone());
        found.ok_or_else(|| format!("cargo built no unit tests for {}", package.name).into())
    };
    of.iter().map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_an_artifact() {
        let lines = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dep"},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/model/Cargo.toml","target":{"kind":["lib"],"name":"tidelock_model"},"profile":{"test":true},"executable":"/t/debug/deps/m-1"}
{"reason":"build-finished","success":true}
"#;
        let found = artifacts(lines);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].executable, Path::new("/t/debug/deps/m-1"));
        assert_eq!((found[0].kind.as_str(), found[0].target.as_str()), ("lib", "tidelock_model"));
        assert!(found[0].is_test && found[0].folder == Path::new("/w/crates/model"));
        assert_eq!(compiled(lines).into_iter().collect::<Vec<_>>(), ["dep", "tidelock_model"]);
    }
}
