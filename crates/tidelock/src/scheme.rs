//! The schemes of URLs: which backend serves each, and which features of this crate it needs.

use tidelock_core::{Error, ErrorKind, Result};

/// A backend that a URL can name, whether it is built in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    MySql,
    Redis,
    ZooKeeper,
    Etcd,
}

/// One way in which a URL can begin.
struct Scheme {
    name: &'static str,
    store: Store,
    features: &'static [Feature],
}

/// A feature of this crate, and whether it is on.
struct Feature {
    name: &'static str,
    is_on: bool,
}

macro_rules! feature {
    ($name:literal) => {
        Feature { name: $name, is_on: cfg!(feature = $name) }
    };
}

const MEMORY: &[Feature] = &[feature!("memory")];
const MYSQL: &[Feature] = &[feature!("mysql")];
const REDIS: &[Feature] = &[feature!("redis")];
const REDIS_CLUSTER: &[Feature] = &[feature!("redis-cluster")];
const REDIS_TLS: &[Feature] = &[feature!("redis-tls")];
const REDIS_CLUSTER_TLS: &[Feature] = &[feature!("redis-cluster"), feature!("redis-tls")];
const ZOOKEEPER: &[Feature] = &[feature!("zookeeper")];
const ZOOKEEPER_TLS: &[Feature] = &[feature!("zookeeper-tls")];
const ETCD: &[Feature] = &[feature!("etcd")];
const ETCD_TLS: &[Feature] = &[feature!("etcd-tls")];

const SCHEMES: &[Scheme] = &[
    Scheme { name: "memory", store: Store::Memory, features: MEMORY },
    Scheme { name: "mysql", store: Store::MySql, features: MYSQL },
    Scheme { name: "mariadb", store: Store::MySql, features: MYSQL },
    Scheme { name: "redis", store: Store::Redis, features: REDIS },
    Scheme { name: "rediss", store: Store::Redis, features: REDIS_TLS },
    Scheme { name: "redis+unix", store: Store::Redis, features: REDIS },
    Scheme { name: "redis-sentinel", store: Store::Redis, features: REDIS },
    Scheme { name: "rediss-sentinel", store: Store::Redis, features: REDIS_TLS },
    Scheme { name: "redis-cluster", store: Store::Redis, features: REDIS_CLUSTER },
    Scheme { name: "rediss-cluster", store: Store::Redis, features: REDIS_CLUSTER_TLS },
    Scheme { name: "zookeeper", store: Store::ZooKeeper, features: ZOOKEEPER },
    Scheme { name: "zookeeper+tls", store: Store::ZooKeeper, features: ZOOKEEPER_TLS },
    Scheme { name: "etcd", store: Store::Etcd, features: ETCD },
    Scheme { name: "etcds", store: Store::Etcd, features: ETCD_TLS },
];

impl Store {
    /// The backend that this URL names, if it is built in. Nothing of the URL but its scheme is repeated in an error:
    /// the rest may hold a password.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let name = url.split_once("://").map(|(name, _)| name);
        let Some(scheme) = SCHEMES.iter().find(|scheme| Some(scheme.name) == name) else {
            return Err(unknown(name.unwrap_or(url)));
        };
        if scheme.features.iter().all(|feature| feature.is_on) {
            Ok(scheme.store)
        } else {
            Err(scheme.missing())
        }
    }
}

impl Scheme {
    fn missing(&self) -> Error {
        let features: Vec<_> = self.features.iter().map(|feature| format!("{:?}", feature.name)).collect();
        let features = features.join(", ");
        let missing = format!(
            "this program was built without what {name}:// needs; in Cargo.toml: \
             tidelock = {{ version = \"{version}\", features = [{features}] }}",
            name = self.name,
            version = env!("CARGO_PKG_VERSION"),
        );
        Error::new(ErrorKind::Unsupported, missing)
    }
}

/// The error for a URL that begins like this. It repeats the beginning only if that can be the name of a scheme.
fn unknown(name: &str) -> Error {
    const LONGEST: usize = 20;
    let is_scheme = |letter: char| letter.is_ascii_alphabetic() || letter == '+' || letter == '-';
    let known: Vec<_> = SCHEMES.iter().map(|scheme| format!("{}://", scheme.name)).collect();
    let known = known.join(", ");
    let wrong = match name {
        "" => format!("the URL of the store is empty; it must begin with one of {known}"),
        name if name.len() <= LONGEST && name.chars().all(is_scheme) => {
            format!("unknown store {name:?}: the URL must begin with one of {known}")
        }
        _ => format!("unknown store: the URL must begin with one of {known}"),
    };
    Error::new(ErrorKind::InvalidOption, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_is_told_what_there_is_and_repeats_no_password() {
        for url in ["", "memory", "127.0.0.1:6379", "http://me:secret@host", "Redis://me:secret@host"] {
            let error = Store::of(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            let text = error.to_string();
            assert!(text.contains("memory://") && text.contains("zookeeper://"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn the_scheme_that_is_unknown_is_repeated_and_an_empty_url_is_called_empty() {
        let said = |url: &str| Store::of(url).unwrap_err().to_string();
        assert!(said("redsi://me:secret@host").starts_with("unknown store \"redsi\":"));
        assert!(said("").starts_with("the URL of the store is empty"));
        assert!(said("127.0.0.1:6379").starts_with("unknown store: "));
    }

    #[test]
    fn a_missing_feature_is_told_with_the_line_to_add() {
        let off =
            &[Feature { name: "redis-cluster", is_on: false }, Feature { name: "redis-tls", is_on: false }];
        let scheme = Scheme { name: "rediss-cluster", store: Store::Redis, features: off };
        let error = scheme.missing();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let line = r#"tidelock = { version = "0.1.0", features = ["redis-cluster", "redis-tls"] }"#;
        assert!(error.to_string().ends_with(line), "{error}");
    }

    #[test]
    fn each_scheme_is_served_or_names_its_feature() {
        for scheme in SCHEMES {
            let is_built = scheme.features.iter().all(|feature| feature.is_on);
            let url = format!("{}://host", scheme.name);
            assert_eq!(Store::of(&url).ok(), is_built.then_some(scheme.store), "{url}");
        }
    }
}
