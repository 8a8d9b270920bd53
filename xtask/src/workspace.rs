//! The workspace as cargo sees it: its packages, their dependencies, and paths.
//!
//! It is read once, from `cargo metadata`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tinyjson::JsonValue;

use crate::cargo;
use crate::place;
use crate::trouble::{Result, Trouble, While};

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target folder, even if the user has moved it.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) dir: PathBuf,
    pub(crate) published: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) is_library: bool,
    pub(crate) examples: Vec<String>,
    /// What each of its features turns on.
    pub(crate) features: HashMap<String, Vec<String>>,
    /// Manifest keys that are not empty.
    filled: Vec<String>,
    rust_version: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) for_tests_only: bool,
    /// Only by a feature.
    pub(crate) is_optional: bool,
}

type Object = HashMap<String, JsonValue>;

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let root = place::root()?;
        let metadata = cargo::call(&root).args(["metadata", "--format-version", "1", "--no-deps"]);
        let text = metadata.run()?;
        if !text.success() {
            return Err(format!("cargo cannot read the workspace:\n{}", text.tail(20)).into());
        }
        Self::parse(root, &text.stdout).ok_or_else(|| "cannot parse the output of `cargo metadata`".into())
    }

    pub(crate) fn parse(root: PathBuf, json: &str) -> Option<Self> {
        let value: JsonValue = json.parse().ok()?;
        let top = value.get::<Object>()?;
        let target = PathBuf::from(top.get("target_directory")?.get::<String>()?);
        let packages =
            top.get("packages")?.get::<Vec<_>>()?.iter().map(Package::parse).collect::<Option<_>>()?;
        Some(Self { root, target, packages })
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.ok_or_else(|| format!("the workspace has no package `{name}`").into())
    }

    /// The library crates that may be published.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.published && package.is_library)
    }

    /// The oldest Rusts that the libraries promise, as rustup names them: the oldest one first.
    pub(crate) fn promised_rusts(&self) -> Result<Vec<String>> {
        let mut promised: Vec<String> = self.libraries().filter_map(Package::oldest_rust).collect();
        promised.sort_by_key(|rust| numbers(rust));
        promised.dedup();
        match promised.is_empty() {
            true => Err(Trouble::from("no library crate states its rust-version")),
            false => Ok(promised),
        }
    }

    /// The features of a library that compile with the oldest Rust that it promises, in a fixed order: another library,
    /// which a feature adds, may need a newer one.
    pub(crate) fn features_for_oldest_rust<'a>(&self, library: &'a Package) -> Vec<&'a str> {
        let promised = library.oldest_rust().map(|rust| numbers(&rust));
        let allows = |needed: &str| {
            let needed = self.package(needed).ok().and_then(Package::oldest_rust);
            needed.is_none_or(|rust| Some(numbers(&rust)) <= promised)
        };
        let mut features: Vec<&str> = library.features.keys().map(String::as_str).collect();
        features.retain(|feature| library.needed_by(feature).into_iter().all(allows));
        features.sort_unstable();
        features
    }

    /// The toolchain that rust-toolchain.toml pins.
    pub(crate) fn pinned_rust(&self) -> Result<String> {
        let file = self.root.join("rust-toolchain.toml");
        let text = std::fs::read_to_string(&file).when(|| format!("read {}", file.display()))?;
        let channel = text.lines().find_map(|line| line.strip_prefix("channel")?.trim().strip_prefix('='));
        let channel = channel.map(|value| value.trim().trim_matches('"').to_owned());
        channel.ok_or_else(|| format!("{} names no channel", file.display()).into())
    }
}

impl Package {
    fn parse(value: &JsonValue) -> Option<Self> {
        let package = value.get::<Object>()?;
        let targets = package.get("targets")?.get::<Vec<_>>()?;
        let dependencies = package.get("dependencies")?.get::<Vec<_>>()?;
        Some(Self {
            name: text(package, "name")?,
            version: text(package, "version")?,
            dir: Path::new(&text(package, "manifest_path")?).parent()?.to_owned(),
            // null: anywhere; an empty list: `publish = false`.
            published: package.get("publish")?.is_null(),
            dependencies: dependencies.iter().map(Dependency::parse).collect::<Option<_>>()?,
            is_library: targets.iter().any(|target| kind(target, "lib")),
            examples: targets.iter().filter(|t| kind(t, "example")).map(name_of).collect::<Option<_>>()?,
            features: features(package.get("features")?)?,
            filled: package.iter().filter(|(_, value)| filled(value)).map(|(key, _)| key.clone()).collect(),
            rust_version: text(package, "rust_version"),
        })
    }

    /// `1.88` as rustup's `1.88.0`.
    pub(crate) fn oldest_rust(&self) -> Option<String> {
        let version = self.rust_version.clone()?;
        Some(if version.matches('.').count() == 1 { format!("{version}.0") } else { version })
    }

    pub(crate) fn states(&self, key: &str) -> bool {
        self.filled.iter().any(|filled| filled == key)
    }

    /// Its dependencies outside tests.
    pub(crate) fn product_dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|dependency| !dependency.for_tests_only)
    }

    /// The packages that a feature needs: those that it adds, and those that it turns on a feature of.
    fn needed_by(&self, feature: &str) -> Vec<&str> {
        let mut needed = Vec::new();
        for part in self.features.get(feature).into_iter().flatten() {
            match part.strip_prefix("dep:").or(part.split_once('/').map(|(package, _)| package)) {
                Some(package) if package.ends_with('?') => {} // only if another feature adds it
                Some(package) => needed.push(package),
                None => needed.extend(self.needed_by(part)),
            }
        }
        needed
    }

    /// The other packages of this workspace that its users get with it.
    pub(crate) fn own_dependencies(&self) -> impl Iterator<Item = &str> {
        let names = self.product_dependencies().map(|dependency| dependency.name.as_str());
        names.filter(|name| name.starts_with("tidelock"))
    }
}

impl Dependency {
    fn parse(value: &JsonValue) -> Option<Self> {
        let dependency = value.get::<Object>()?;
        Some(Self {
            name: text(dependency, "name")?,
            for_tests_only: text(dependency, "kind").as_deref() == Some("dev"),
            is_optional: dependency.get("optional")?.get::<bool>().copied()?,
        })
    }
}

/// `1.88.0` as numbers, which can be compared.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|number| number.parse().ok()).collect()
}

fn features(value: &JsonValue) -> Option<HashMap<String, Vec<String>>> {
    let parts = |parts: &JsonValue| {
        parts.get::<Vec<_>>()?.iter().map(|part| part.get::<String>().cloned()).collect::<Option<_>>()
    };
    value.get::<Object>()?.iter().map(|(name, value)| Some((name.clone(), parts(value)?))).collect()
}

fn text(object: &Object, key: &str) -> Option<String> {
    object.get(key)?.get::<String>().cloned()
}

fn name_of(target: &JsonValue) -> Option<String> {
    text(target.get::<Object>()?, "name")
}

fn kind(target: &JsonValue, wanted: &str) -> bool {
    let kinds = target.get::<Object>().and_then(|target| target.get("kind")?.get::<Vec<JsonValue>>());
    kinds
        .is_some_and(|kinds| kinds.iter().any(|kind| kind.get::<String>().is_some_and(|kind| kind == wanted)))
}

fn filled(value: &JsonValue) -> bool {
    match value {
        JsonValue::Null => false,
        JsonValue::String(text) => !text.trim().is_empty(),
        JsonValue::Array(items) => !items.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"target_directory": "/build", "packages": [
        {"name": "tidelock", "version": "0.1.0", "manifest_path": "/w/crates/core/Cargo.toml", "publish": null,
         "license": "MIT", "keywords": [], "rust_version": "1.88",
         "features": {"default": ["tls"], "tls": ["dep:rustls"], "weak": ["tidelock-mysql?/x"],
                      "mysql": ["dep:tidelock-mysql"], "mysql-x": ["tls", "mysql"], "x": ["tidelock-mysql/x"]},
         "targets": [{"name": "tidelock", "kind": ["lib"]}, {"name": "first", "kind": ["example"]}],
         "dependencies": [{"name": "tidelock-model", "kind": null, "optional": false},
                          {"name": "tidelock-mysql", "kind": null, "optional": true},
                          {"name": "tidelock-memory", "kind": "dev", "optional": false}]},
        {"name": "tidelock-mysql", "version": "0.1.0", "manifest_path": "/w/crates/mysql/Cargo.toml", "publish": null,
         "rust_version": "1.100", "features": {}, "targets": [{"name": "tidelock_mysql", "kind": ["lib"]}],
         "dependencies": []},
        {"name": "xtask", "version": "0.0.0", "manifest_path": "/w/xtask/Cargo.toml", "publish": [],
         "rust_version": null, "features": {}, "targets": [{"name": "xtask", "kind": ["bin"]}], "dependencies": []}]}"#;

    #[test]
    fn metadata_is_read() {
        let workspace = Workspace::parse("/w".into(), METADATA).unwrap();
        let names: Vec<_> = workspace.libraries().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["tidelock", "tidelock-mysql"]);
        assert_eq!(workspace.promised_rusts().unwrap(), ["1.88.0", "1.100.0"]);
        let core = workspace.package("tidelock").unwrap();
        assert_eq!(core.own_dependencies().collect::<Vec<_>>(), ["tidelock-model", "tidelock-mysql"]);
        assert_eq!(core.oldest_rust().unwrap(), "1.88.0");
        assert_eq!(workspace.features_for_oldest_rust(core), ["default", "tls", "weak"]);
        assert_eq!(core.features["tls"], ["dep:rustls"]);
        assert_eq!(core.examples, ["first"]);
        assert!(core.states("license") && !core.states("keywords") && !core.states("description"));
        assert!(workspace.package("tidelock-redis").is_err());
    }
}
