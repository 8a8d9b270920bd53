//! The promises of docs/ARCHITECTURE.md about the crates and their borders, as far as the source text can show them.
//!
//! Each invariant is one sentence, and one function over the workspace that returns the first offence.

use std::fs;
use std::path::{Path, PathBuf};

use super::imports::Imports;
use super::{Job, circles};
use crate::place;
use crate::tally::Tally;
use crate::workspace::{Dependency, Package, Workspace};

type Check = fn(&Workspace) -> Result<(), String>;

const INVARIANTS: &[(&str, Check)] = &[
    ("the model has no dependencies, except serde by a feature", model_is_alone),
    ("the model is no_std", model_is_no_std),
    ("core depends on no backend, except in its tests", core_names_no_backend),
    ("no backend depends on another", backends_are_strangers),
    (
        "a backend depends on core, and on the suite, the checker and the benchmark in its tests at most",
        backends_stand_on_core,
    ),
    ("no backend names a guard", backends_know_no_guard),
    (
        "a store is one room: the suite, the checker and the benchmark name no store but memory",
        stores_are_rooms,
    ),
    ("xtask depends on no crate of Tidelock", xtask_is_alone),
    ("the playground and the checker of histories depend on the model alone", model_is_enough),
    ("no file or folder has a catch-all name", no_drawers),
    ("no circle among the files of a crate", no_circles),
    ("every crate inherits the workspace's lints", lints_are_inherited),
    ("every library's manifest says what it is", manifests_are_complete),
    ("docs/ARCHITECTURE.md describes every library", architecture_is_whole),
];

/// All backends. One that is not part of the workspace is no offence.
const BACKENDS: [&str; 5] =
    ["tidelock-memory", "tidelock-redis", "tidelock-zookeeper", "tidelock-mysql", "tidelock-etcd"];

/// The crates that test and measure backends, and core over them.
const ABOVE_BACKENDS: [&str; 4] = [CHECKER, "tidelock-conformance", "tidelock-bench", "tidelock-simulation"];

/// Those of them that know no store but memory. The simulation plays a backend on servers of its own.
const WITHOUT_STORES: [&str; 3] = [CHECKER, "tidelock-conformance", "tidelock-bench"];

/// The checker of histories: whoever records some can use it, without core or a store.
const CHECKER: &str = "tidelock-history";

/// The crates whose files import each other in no circle.
const WITHOUT_CIRCLES: [&str; 13] = [
    "tidelock-model",
    "tidelock-core",
    "tidelock-memory",
    "tidelock-redis",
    "tidelock-zookeeper",
    "tidelock-etcd",
    "tidelock-mysql",
    "tidelock-history",
    "tidelock-conformance",
    "tidelock-bench",
    "tidelock-simulation",
    "tidelock",
    "tidelock-playground",
];

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
    let model = package(workspace, "tidelock-model")?;
    let is_exempt = |dependency: &&Dependency| dependency.is_optional && dependency.name == "serde";
    let mut needed = model.product_dependencies().filter(|dependency| !is_exempt(dependency));
    if model.features.get("default").is_some_and(|on| !on.is_empty()) {
        return Err("it has features that are on by default".into());
    }
    needed.next().map_or(Ok(()), |dependency| Err(format!("it depends on {}", dependency.name)))
}

fn model_is_no_std(workspace: &Workspace) -> Result<(), String> {
    let file = package(workspace, "tidelock-model")?.dir.join("src/lib.rs");
    let is_said = read(&file)?.lines().any(|line| line.trim() == "#![no_std]");
    if is_said { Ok(()) } else { Err(format!("{} does not say `#![no_std]`", file.display())) }
}

fn core_names_no_backend(workspace: &Workspace) -> Result<(), String> {
    let mut named = package(workspace, "tidelock-core")?.own_dependencies();
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
        if !backend.own_dependencies().any(|name| name == "tidelock-core") {
            return Err(format!("{} does not depend on it", backend.name));
        }
        if let Some(above) = backend.own_dependencies().find(|name| ABOVE_BACKENDS.contains(name)) {
            return Err(format!("{} depends on {above}", backend.name));
        }
    }
    Ok(())
}

/// What the suite and the benchmark must know of a store is in the store's own crate: they neither depend on nor name one.
fn stores_are_rooms(workspace: &Workspace) -> Result<(), String> {
    let stores =
        BACKENDS.iter().filter_map(|name| name.strip_prefix("tidelock-")).filter(|name| *name != "memory");
    let stores: Vec<&str> = stores.collect();
    for name in WITHOUT_STORES {
        let above = package(workspace, name)?;
        if let Some(store) = above.own_dependencies().find(|name| BACKENDS[1..].contains(name)) {
            return Err(format!("{name} depends on {store}"));
        }
        for file in place::files_below(&above.dir.join("src")) {
            if let Some((line, store)) = first_line_on_any(&stores, &read(&file)?) {
                return Err(format!("{}, line {line}, names {store}", file.display()));
            }
        }
    }
    Ok(())
}

/// The first line, from 1, whose code names one of these stores: its crate, a module or its name as a string. A URL in a
/// test does not count.
fn first_line_on_any<'a>(stores: &[&'a str], source: &str) -> Option<(usize, &'a str)> {
    let is_on = |code: &str, store: &str| {
        let marks = [
            format!("{store}::"),
            format!("tidelock_{store}"),
            format!("mod {store};"),
            format!("\"{store}\""),
        ];
        marks.iter().any(|mark| code.contains(mark.as_str()))
    };
    source.lines().enumerate().find_map(|(index, line)| {
        let code = line.split("//").next().unwrap_or("");
        stores.iter().find(|store| is_on(code, store)).map(|store| (index + 1, *store))
    })
}

fn xtask_is_alone(workspace: &Workspace) -> Result<(), String> {
    let xtask = package(workspace, "xtask")?;
    let own = xtask.dependencies.iter().find(|dependency| dependency.name.starts_with("tidelock"));
    own.map_or(Ok(()), |dependency| Err(format!("it depends on {}", dependency.name)))
}

fn model_is_enough(workspace: &Workspace) -> Result<(), String> {
    let playground = workspace.root.join("playground");
    let is_meant = |package: &&Package| package.name == CHECKER || package.dir.starts_with(&playground);
    for package in workspace.packages.iter().filter(is_meant) {
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

fn no_circles(workspace: &Workspace) -> Result<(), String> {
    for name in WITHOUT_CIRCLES {
        let src = package(workspace, name)?.dir.join("src");
        if let Some(circle) = circles::shortest(&imports_in(&src)?) {
            let files: Vec<_> = circle.iter().map(|file| file.display().to_string()).collect();
            return Err(format!("in {}, each imports the next: {}", src.display(), files.join(", ")));
        }
    }
    Ok(())
}

/// The imports of the files that users get.
fn imports_in(src: &Path) -> Result<Imports, String> {
    let mut files = Vec::new();
    for file in place::files_below(src).iter().filter(|file| is_product(file)) {
        files.push((file.strip_prefix(src).unwrap_or(file).to_owned(), read(file)?));
    }
    Ok(Imports::of(files))
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

    #[test]
    fn a_store_is_found_in_code_alone() {
        let source = "//! redis::Client\nlet url = \"redis://127.0.0.1\";\nmatch name { \"redis\" => {} }\n";
        assert_eq!(first_line_on_any(&["etcd", "redis"], source), Some((3, "redis")));
        assert_eq!(first_line_on_any(&["etcd"], source), None);
        assert_eq!(first_line_on_any(&["redis"], "use tidelock_redis::Store;"), Some((1, "redis")));
    }

    #[test]
    fn drawers_are_known_by_their_names() {
        assert!(is_drawer("utils.rs") && is_drawer("common") && is_drawer("misc.md"));
        assert!(!is_drawer("commonplace.rs") && !is_drawer("line.rs"));
    }
}
