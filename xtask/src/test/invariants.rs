//! The promises of docs/ARCHITECTURE.md about the crates and their borders, as far as the source text can show them.
//!
//! Each invariant is one sentence, and one function over the workspace that returns the first offence.

use std::fs;
use std::path::{Path, PathBuf};

use super::Job;
use crate::place;
use crate::tally::Tally;
use crate::workspace::{Package, Workspace};

type Check = fn(&Workspace) -> Result<(), String>;

const INVARIANTS: &[(&str, Check)] = &[
    ("the model has no dependencies", model_is_alone),
    ("the model is no_std", model_is_no_std),
    ("core depends on no backend, except in its tests", core_names_no_backend),
    ("no backend depends on another", backends_are_strangers),
    (
        "a backend depends on core, and on the suite and the benchmark in its tests at most",
        backends_stand_on_core,
    ),
    ("no backend names a guard", backends_know_no_guard),
    (
        "the conformance suite needs only the memory backend by default, and another only with the feature of its name",
        suite_needs_no_server,
    ),
    (
        "the benchmark needs only the memory backend by default, and another only with the feature of its name",
        bench_needs_no_server,
    ),
    ("xtask depends on no crate of Tidelock", xtask_is_alone),
    ("the playground depends on the model alone", playground_needs_the_model_alone),
    ("no file or folder has a catch-all name", no_drawers),
    ("every crate inherits the workspace's lints", lints_are_inherited),
    ("every library's manifest says what it is", manifests_are_complete),
    ("docs/ARCHITECTURE.md describes every library", architecture_is_whole),
];

/// All backends. One that is not part of the workspace is no offence.
const BACKENDS: [&str; 5] =
    ["tidelock-memory", "tidelock-redis", "tidelock-zookeeper", "tidelock-mysql", "tidelock-etcd"];

/// The crates that test and measure backends.
const ABOVE_BACKENDS: [&str; 2] = ["tidelock-conformance", "tidelock-bench"];

/// Names that say nothing about the contents.
const DRAWERS: [&str; 8] = ["utils", "util", "helpers", "helper", "common", "misc", "shared", "stuff"];

const MANIFEST_KEYS: [&str; 6] =
    ["description", "license", "keywords", "categories", "readme", "rust_version"];

pub(super) fn run(job: &Job, tally: &mut Tally) -> crate::trouble::Result<()> {
    for (sentence, check) in INVARIANTS {
        match check(&job.workspace) {
            Ok(()) => {
                println!("ok {sentence}");
                tally.pass(1);
            }
            Err(offence) => {
                println!("BROKEN {sentence}: {offence}");
                tally.fail(format!("invariant: {sentence}: {offence}"));
            }
        }
    }
    Ok(())
}

fn model_is_alone(workspace: &Workspace) -> Result<(), String> {
    let mut needed = package(workspace, "tidelock-model")?.product_dependencies();
    needed.next().map_or(Ok(()), |dependency| Err(format!("it depends on {}", dependency.name)))
}

fn model_is_no_std(workspace: &Workspace) -> Result<(), String> {
    let file = package(workspace, "tidelock-model")?.dir.join("src/lib.rs");
    let is_said = read(&file)?.lines().any(|line| line.trim() == "#![no_std]");
    if is_said { Ok(()) } else { Err(format!("{} does not say `#![no_std]`", file.display())) }
}

fn core_names_no_backend(workspace: &Workspace) -> Result<(), String> {
    let mut named = package(workspace, "tidelock")?.own_dependencies();
    named.find(|name| *name != "tidelock-model").map_or(Ok(()), |name| Err(format!("it depends on {name}")))
}

fn backends_are_strangers(workspace: &Workspace) -> Result<(), String> {
    for backend in backends(workspace) {
        if let Some(other) = backend.own_dependencies().find(|name| BACKENDS.contains(name)) {
            return Err(format!("{} depends on {other}", backend.name));
        }
    }
    Ok(())
}

fn backends_know_no_guard(workspace: &Workspace) -> Result<(), String> {
    for backend in backends(workspace) {
        for file in place::files_below(&backend.dir.join("src")).iter().filter(|file| is_product(file)) {
            if let Some(line) = first_line_naming("Guard", &read(file)?) {
                return Err(format!("{}, line {line}", file.display()));
            }
        }
    }
    Ok(())
}

fn backends_stand_on_core(workspace: &Workspace) -> Result<(), String> {
    for backend in backends(workspace) {
        if !backend.own_dependencies().any(|name| name == "tidelock") {
            return Err(format!("{} does not depend on it", backend.name));
        }
        if let Some(above) = backend.own_dependencies().find(|name| ABOVE_BACKENDS.contains(name)) {
            return Err(format!("{} depends on {above}", backend.name));
        }
    }
    Ok(())
}

fn suite_needs_no_server(workspace: &Workspace) -> Result<(), String> {
    needs_memory_alone(package(workspace, "tidelock-conformance")?)
}

fn bench_needs_no_server(workspace: &Workspace) -> Result<(), String> {
    needs_memory_alone(package(workspace, "tidelock-bench")?)
}

/// A build for memory alone must build no client of any store.
fn needs_memory_alone(package: &Package) -> Result<(), String> {
    let servers = BACKENDS.iter().filter(|name| **name != "tidelock-memory");
    for name in servers {
        let own = name.trim_start_matches("tidelock-");
        let mut needed = package.product_dependencies().filter(|dependency| dependency.name == *name);
        if needed.any(|dependency| !dependency.is_optional) {
            return Err(format!("it always depends on {name}"));
        }
        let mut others = package.features.iter().filter(|(feature, _)| *feature != own);
        if let Some((other, _)) = others.find(|(_, parts)| parts.iter().any(|part| brings_in(part, name))) {
            return Err(format!("{name} is turned on by the feature `{other}`"));
        }
        if turned_on(package, "default").iter().any(|feature| feature == own) {
            return Err(format!("{name} is on by default"));
        }
    }
    Ok(())
}

/// Whether this part of a feature turns on an optional dependency.
fn brings_in(part: &str, dependency: &str) -> bool {
    let part = part.strip_prefix("dep:").unwrap_or(part);
    part.split('/').next() == Some(dependency)
}

/// A feature, and all that it turns on.
fn turned_on(package: &Package, feature: &str) -> Vec<String> {
    let mut found = vec![feature.to_owned()];
    let mut next = 0;
    while let Some(feature) = found.get(next) {
        let parts = package.features.get(feature).cloned().unwrap_or_default();
        found.extend(parts.into_iter().filter(|part| !found.contains(part)).collect::<Vec<_>>());
        next += 1;
    }
    found
}

fn xtask_is_alone(workspace: &Workspace) -> Result<(), String> {
    let xtask = package(workspace, "xtask")?;
    let own = xtask.dependencies.iter().find(|dependency| dependency.name.starts_with("tidelock"));
    own.map_or(Ok(()), |dependency| Err(format!("it depends on {}", dependency.name)))
}

fn playground_needs_the_model_alone(workspace: &Workspace) -> Result<(), String> {
    let playground = workspace.root.join("playground");
    for package in workspace.packages.iter().filter(|package| package.dir.starts_with(&playground)) {
        if let Some(other) = package.own_dependencies().find(|name| *name != "tidelock-model") {
            return Err(format!("{} depends on {other}", package.name));
        }
    }
    Ok(())
}

fn no_drawers(workspace: &Workspace) -> Result<(), String> {
    for file in place::files_below(&workspace.root) {
        let inside = file.strip_prefix(&workspace.root).unwrap_or(&file);
        if inside.iter().any(|part| is_drawer(&part.to_string_lossy())) {
            return Err(inside.display().to_string());
        }
    }
    Ok(())
}

fn lints_are_inherited(workspace: &Workspace) -> Result<(), String> {
    for package in &workspace.packages {
        let manifest = read(&package.dir.join("Cargo.toml"))?;
        let mut section = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        let inherits = section.next().is_some_and(|line| line.replace(' ', "") == "workspace=true");
        if !inherits {
            return Err(format!("{} does not", package.name));
        }
    }
    Ok(())
}

fn manifests_are_complete(workspace: &Workspace) -> Result<(), String> {
    for package in workspace.libraries() {
        if let Some(key) = MANIFEST_KEYS.iter().find(|key| !package.states(key)) {
            return Err(format!("{} has no {key}", package.name));
        }
    }
    Ok(())
}

fn architecture_is_whole(workspace: &Workspace) -> Result<(), String> {
    let page = read(&workspace.root.join("docs/ARCHITECTURE.md"))?;
    let is_told = |library: &&Package| {
        let folder = library.dir.file_name().unwrap_or_default().to_string_lossy();
        page.contains(&format!("{folder}/")) || page.contains(&format!("crates/{folder}"))
    };
    let untold = workspace.libraries().find(|library| !is_told(library));
    untold.map_or(Ok(()), |library| Err(format!("the folder of {} is not named there", library.name)))
}

fn backends(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace.packages.iter().filter(|package| BACKENDS.contains(&package.name.as_str()))
}

/// Whether a file is Rust that users get, not tests.
fn is_product(file: &Path) -> bool {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let is_tests =
        file.iter().any(|part| ["tests", "tests.rs", "loom", "loom.rs"].iter().any(|name| part == *name));
    is_rust && !is_tests
}

fn is_drawer(name: &str) -> bool {
    DRAWERS.contains(&name.split('.').next().unwrap_or(name))
}

/// The first line, counted from 1, whose code contains this word. Comments do not count, nor anything after the head of
/// a test module.
fn first_line_naming(word: &str, source: &str) -> Option<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let is_test_module = |pair: &[&str]| {
        pair[0].trim().starts_with("#[cfg(") && pair[0].contains("test") && pair[1].trim().starts_with("mod ")
    };
    let end = lines.windows(2).position(is_test_module).unwrap_or(lines.len());
    let names = |line: &&str| {
        let code = line.split("//").next().unwrap_or("");
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
    };
    lines[..end].iter().position(names).map(|index| index + 1)
}

fn package<'a>(workspace: &'a Workspace, name: &str) -> Result<&'a Package, String> {
    workspace.package(name).map_err(|trouble| trouble.to_string())
}

fn read(file: &PathBuf) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_found_in_code_alone() {
        let source = "//! A Guard is core's.\nuse std::sync::MutexGuard; // no Guard\nfn f(guard: tidelock::Guard) {}\n";
        assert_eq!(first_line_naming("Guard", source), Some(3));
        let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use tidelock::Guard;\n}\n";
        assert_eq!(first_line_naming("Guard", tests), None);
    }

    /// The suite with these features, and with a backend that is optional or not.
    fn suite(features: &str, optional: bool) -> Result<(), String> {
        let json = format!(
            r#"{{"target_directory": "/t", "packages": [{{"name": "tidelock-conformance", "version": "0.1.0",
                "manifest_path": "/w/c/Cargo.toml", "publish": null, "targets": [], "features": {features},
                "dependencies": [{{"name": "tidelock-memory", "kind": null, "optional": false}},
                                 {{"name": "tidelock-redis", "kind": null, "optional": {optional}}}]}}]}}"#
        );
        suite_needs_no_server(&Workspace::parse("/w".into(), &json).unwrap())
    }

    #[test]
    fn a_backend_with_a_server_stays_behind_its_feature() {
        assert_eq!(suite(r#"{"redis": ["dep:tidelock-redis"], "all": ["redis"]}"#, true), Ok(()));
        assert!(suite(r#"{"redis": []}"#, false).is_err());
        assert!(
            suite(r#"{"redis": ["dep:tidelock-redis"], "default": ["all"], "all": ["redis"]}"#, true)
                .is_err()
        );
        assert!(suite(r#"{"tls": ["tidelock-redis/tls"]}"#, true).is_err());
        assert_eq!(
            suite(r#"{"redis": ["dep:tidelock-redis"], "tls": ["tidelock-redis?/tls"]}"#, true),
            Ok(())
        );
    }

    #[test]
    fn drawers_are_known_by_their_names() {
        assert!(is_drawer("utils.rs") && is_drawer("common") && is_drawer("misc.md"));
        assert!(!is_drawer("commonplace.rs") && !is_drawer("line.rs"));
    }
}
