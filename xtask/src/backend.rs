//! The backends, and the servers each of them is tested on.

use crate::trouble::Result;

/// One backend of the workspace.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// The feature that adds it to the suite and the benchmark. None: it is always included.
    feature: Option<&'static str>,
    /// Its deployments, as `cargo xtask servers` names them. The benchmark uses the first. Empty: it needs no server.
    pub(crate) deployments: &'static [&'static str],
    /// Deployments that only its own tests use.
    pub(crate) others: &'static [&'static str],
}

const BACKENDS: &[Backend] = &[
    Backend { name: "memory", feature: None, deployments: &[], others: &[] },
    Backend {
        name: "redis",
        feature: Some("redis"),
        deployments: &["redis", "redis-sentinel", "redis-cluster"],
        others: &[],
    },
    Backend {
        name: "zookeeper",
        feature: Some("zookeeper"),
        deployments: &["zookeeper", "zookeeper-ensemble"],
        others: &["zookeeper-tls"],
    },
];

/// The backends with this name, or all of them for `all`.
pub(crate) fn called(name: &str) -> Result<Vec<&'static Backend>> {
    let found: Vec<_> = BACKENDS.iter().filter(|backend| name == "all" || backend.name == name).collect();
    if found.is_empty() {
        let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
        return Err(format!("there is no backend `{name}`; choose one of: {}, all", names.join(", ")).into());
    }
    Ok(found)
}

/// Cargo's flags for a build with only these backends: the dependencies of others are not built.
pub(crate) fn features(backends: &[&Backend]) -> Vec<String> {
    let features: Vec<&str> = backends.iter().filter_map(|backend| backend.feature).collect();
    if features.is_empty() { Vec::new() } else { vec!["--features".to_owned(), features.join(",")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_every_backend_and_a_strangers_name_is_told_what_there_is() {
        assert_eq!(called("all").unwrap().len(), BACKENDS.len());
        assert_eq!(called("memory").unwrap()[0].name, "memory");
        let trouble = called("stone-tablets").unwrap_err().to_string();
        assert_eq!(
            trouble,
            "there is no backend `stone-tablets`; choose one of: memory, redis, zookeeper, all"
        );
    }

    #[test]
    fn memory_is_built_without_any_other() {
        assert!(features(&called("memory").unwrap()).is_empty());
        assert_eq!(features(&called("redis").unwrap()), ["--features", "redis"]);
    }
}
