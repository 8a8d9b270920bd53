//! The backends that there are, and the servers each of them is tried on.

use crate::trouble::Result;

/// One backend of the workspace.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// What brings it into the suite and into the benchmark. None: it is always there.
    feature: Option<&'static str>,
    /// As `cargo xtask servers` names them; the first is the one that is measured. None: it needs no server.
    pub(crate) deployments: &'static [&'static str],
    /// Those that only its own tests ask for.
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

/// The backends meant by a name, or by `all`.
pub(crate) fn called(name: &str) -> Result<Vec<&'static Backend>> {
    let found: Vec<_> = BACKENDS.iter().filter(|backend| name == "all" || backend.name == name).collect();
    if found.is_empty() {
        let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
        return Err(format!("there is no backend `{name}`; there is: {}, all", names.join(", ")).into());
    }
    Ok(found)
}

/// Cargo's flags for a build with these backends and no other: none of the others' dependencies is built.
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
        assert_eq!(trouble, "there is no backend `stone-tablets`; there is: memory, redis, zookeeper, all");
    }

    #[test]
    fn memory_is_built_without_any_other() {
        assert!(features(&called("memory").unwrap()).is_empty());
        assert_eq!(features(&called("redis").unwrap()), ["--features", "redis"]);
    }
}
