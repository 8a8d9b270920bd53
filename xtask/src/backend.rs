//! The backends, and the servers each of them is tested on.

use crate::trouble::Result;

/// One backend of the workspace.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// The features of its crate that its own contract and benchmark need, beside the default ones.
    features: &'static [&'static str],
    /// Its deployments, as `cargo xtask servers` names them. The benchmark uses the first. Empty: it needs no server.
    pub(crate) deployments: &'static [&'static str],
    /// Those of them whose servers keep a processor busy.
    pub(crate) busy: &'static [&'static str],
    /// Those on which crowds of thousands are tried: what they show of a store's lines and of its client does not depend on
    /// how many servers keep them.
    pub(crate) crowded: &'static [&'static str],
    /// Deployments that only its own tests use.
    pub(crate) others: &'static [&'static str],
}

const BACKENDS: &[Backend] = &[
    Backend { name: "memory", features: &[], deployments: &[], busy: &[], crowded: &[], others: &[] },
    Backend {
        name: "redis",
        features: &["cluster"],
        deployments: &["redis", "redis-sentinel", "redis-cluster"],
        busy: &["redis-cluster"],
        crowded: &["redis", "redis-cluster"],
        others: &[],
    },
    Backend {
        name: "zookeeper",
        features: &[],
        deployments: &["zookeeper", "zookeeper-ensemble"],
        busy: &["zookeeper-ensemble"],
        crowded: &["zookeeper"],
        others: &["zookeeper-tls"],
    },
    Backend {
        name: "etcd",
        features: &[],
        deployments: &["etcd", "etcd-cluster"],
        busy: &["etcd-cluster"],
        crowded: &["etcd"],
        others: &["etcd-tls", "etcd-spare"],
    },
    Backend {
        name: "mysql",
        features: &[],
        deployments: &["mariadb"],
        busy: &[],
        crowded: &["mariadb"],
        others: &["mariadb-tls"],
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

impl Backend {
    /// Whether it needs a server. Then its contract and its benchmark are programs of its own crate; otherwise they are
    /// those of the suite and of the benchmark.
    pub(crate) fn has_servers(&self) -> bool {
        !self.deployments.is_empty()
    }

    /// What the suite is run on: each deployment, or the backend itself.
    pub(crate) fn runs(&self) -> Vec<&'static str> {
        match self.deployments {
            [] => vec![self.name],
            names => names.to_vec(),
        }
    }

    /// The name of its crate.
    pub(crate) fn package(&self) -> String {
        format!("tidelock-{}", self.name)
    }

    /// Cargo's flags to build a program that is a target of this backend's crate.
    pub(crate) fn selection(&self, kind: &str, target: &str) -> Vec<String> {
        let mut flags = vec!["--package".to_owned(), self.package(), kind.to_owned(), target.to_owned()];
        if !self.features.is_empty() {
            flags.extend(["--features".to_owned(), self.features.join(",")]);
        }
        flags
    }
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
            "there is no backend `stone-tablets`; choose one of: memory, redis, zookeeper, etcd, mysql, all"
        );
    }

    #[test]
    fn a_backends_programs_are_its_own_crates() {
        assert!(!called("memory").unwrap()[0].has_servers());
        let redis = called("redis").unwrap()[0].selection("--test", "contract");
        assert_eq!(redis, ["--package", "tidelock-redis", "--test", "contract", "--features", "cluster"]);
    }
}
