//! Parses URLs: one server, sentinels, or a cluster.

use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion};
use tidelock_core::{Error, ErrorKind, Result};

use crate::server_url;

/// Where the servers are.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    One(ConnectionInfo),
    /// The sentinels, their name for the master, and how to connect to its servers.
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        server: ConnectionInfo,
    },
    /// Some of a cluster's nodes.
    #[cfg(feature = "cluster")]
    Cluster(Vec<ConnectionInfo>),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong(
                "a Redis URL begins with redis://, rediss://, redis+unix:// or redis-sentinel://",
            ));
        };
        match scheme {
            "redis-sentinel" => sentinels("redis", rest),
            "rediss-sentinel" => sentinels("rediss", rest),
            "redis-cluster" => cluster("redis", rest),
            "rediss-cluster" => cluster("rediss", rest),
            _ => Ok(Self::One(server(url)?)),
        }
    }

    /// Every server and sentinel that is named.
    pub(crate) fn all(&mut self) -> Vec<&mut ConnectionInfo> {
        match self {
            Self::One(info) => vec![info],
            Self::Sentinels { sentinels, server, .. } => sentinels.iter_mut().chain([server]).collect(),
            #[cfg(feature = "cluster")]
            Self::Cluster(nodes) => nodes.iter_mut().collect(),
        }
    }
}

/// The connection settings of a server: the user's own, and ours for the rest.
pub(crate) fn tuned(info: ConnectionInfo) -> ConnectionInfo {
    #[cfg(feature = "tls")]
    let _ = rustls::crypto::ring::default_provider().install_default(); // unless the program has chosen one
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    // Only with RESP3 can a connection receive grants while it waits for command replies.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let settings = match settings.lib_name() {
        Some(_) => settings, // the program's own client sets its name
        // `redis` sets a name by default. A user with few permissions must not, so each connection would add an entry
        // to the server's ACL LOG.
        None => settings.set_skip_set_lib_name(),
    };
    info.set_tcp_settings(tcp).set_redis_settings(settings)
}

/// The server at another address, with the same connection settings.
pub(crate) fn at(like: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match like.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    like.clone().set_addr(addr)
}

/// `[USER[:PASSWORD]@]HOST:PORT,HOST:PORT[/DATABASE][?sentinel_user=USER&sentinel_pass=PASSWORD]#MASTER`. The first
/// user is for the servers.
fn sentinels(scheme: &str, rest: &str) -> Result<Address> {
    let Some((rest, master)) = rest.rsplit_once('#').filter(|(_, master)| !master.is_empty()) else {
        return Err(wrong(
            "a sentinel URL ends with # and the name of the master: redis-sentinel://HOST:PORT,HOST:PORT#NAME",
        ));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, rest) = user(rest);
    let login = sentinels_login(query)?;
    let (places, database) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = hosts(places);
    let Some(first) = hosts.first() else {
        return Err(wrong("a sentinel URL needs at least one sentinel: redis-sentinel://HOST:PORT#NAME"));
    };
    let server = server(&format!("{scheme}://{user}{first}/{database}"))?;
    let sentinels = hosts.iter().map(|host| server_url::read(&format!("{scheme}://{login}{host}")));
    let sentinels = sentinels.collect::<Result<_>>()?;
    Ok(Address::Sentinels { sentinels, master: master.to_owned(), server })
}

/// `USER:PASSWORD@` for the sentinels, if the URL has it.
fn sentinels_login(query: &str) -> Result<String> {
    let (mut user, mut password) = ("", None);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_pass", value)) => password = Some(value),
            _ => return Err(wrong("a sentinel URL takes only ?sentinel_user=USER&sentinel_pass=PASSWORD")),
        }
    }
    match password {
        Some(password) => Ok(format!("{user}:{password}@")),
        None if user.is_empty() => Ok(String::new()),
        None => Err(wrong("a sentinel URL with ?sentinel_user=USER needs &sentinel_pass=PASSWORD too")),
    }
}

/// `[USER[:PASSWORD]@]HOST:PORT,HOST:PORT`.
#[cfg(feature = "cluster")]
fn cluster(scheme: &str, rest: &str) -> Result<Address> {
    let (user, rest) = user(rest);
    let (places, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !matches!(rest, "" | "/" | "/0") {
        return Err(wrong(
            "a cluster URL ends with its nodes: redis-cluster://HOST:PORT,HOST:PORT; a cluster has only database 0",
        ));
    }
    let hosts = hosts(places);
    let nodes = hosts.iter().map(|host| server(&format!("{scheme}://{user}{host}")));
    let nodes: Vec<_> = nodes.collect::<Result<_>>()?;
    match nodes.is_empty() {
        true => Err(wrong("a cluster URL needs at least one node: redis-cluster://HOST:PORT")),
        false => Ok(Address::Cluster(nodes)),
    }
}

#[cfg(not(feature = "cluster"))]
fn cluster(_: &str, _: &str) -> Result<Address> {
    Err(Error::new(ErrorKind::Unsupported, "cluster URLs need the feature `cluster` of tidelock-redis"))
}

/// Splits off `USER:PASSWORD@`, if it is there.
fn user(rest: &str) -> (&str, &str) {
    rest.split_at(rest.rfind('@').map_or(0, |at| at + 1))
}

fn hosts(places: &str) -> Vec<&str> {
    places.split(',').filter(|host| !host.is_empty()).collect()
}

fn server(url: &str) -> Result<ConnectionInfo> {
    server_url::read(url).map(tuned)
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server() {
        for url in ["redis://127.0.0.1", "redis://u:p@h:7/3", "redis+unix:///tmp/redis.sock?db=1"] {
            assert!(matches!(Address::parse(url), Ok(Address::One(_))), "{url}");
        }
    }

    #[test]
    fn sentinels_and_the_masters_name() {
        let parsed = Address::parse("redis-sentinel://me:secret@a:1,b:2/3#main").unwrap();
        let Address::Sentinels { sentinels, master, server } = parsed else { panic!("not sentinels") };
        assert_eq!((sentinels.len(), master.as_str()), (2, "main"));
        assert_eq!(sentinels[1].addr().to_string(), "b:2");
        assert_eq!(sentinels[1].redis_settings().password(), None);
        assert_eq!((server.redis_settings().db(), server.redis_settings().password()), (3, Some("secret")));
    }

    #[test]
    fn sentinels_may_have_a_password_of_their_own() {
        let url = "redis-sentinel://me:secret@a:1,b:2/3?sentinel_user=eye&sentinel_pass=p%40ss#main";
        let Ok(Address::Sentinels { sentinels, server, .. }) = Address::parse(url) else { panic!() };
        for sentinel in sentinels {
            let settings = sentinel.redis_settings();
            assert_eq!((settings.username(), settings.password()), (Some("eye"), Some("p@ss")));
        }
        assert_eq!(server.redis_settings().password(), Some("secret"));
        let url = "redis-sentinel://a:1?sentinel_pass=secret#main";
        let Ok(Address::Sentinels { sentinels, server, .. }) = Address::parse(url) else { panic!() };
        let settings = sentinels[0].redis_settings();
        assert_eq!((settings.username(), settings.password()), (None, Some("secret")));
        assert_eq!((server.redis_settings().db(), server.redis_settings().password()), (0, None));
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        for url in [
            "",
            "127.0.0.1",
            "http://x",
            "redis://u:secret@:x",
            "redis-sentinel://a:1",
            "redis-sentinel://#m",
            "redis-sentinel://a:1?password=secret#m",
            "redis-sentinel://a:1?sentinel_user=secret#m",
            "redis-sentinel://a:1,b:x#m",
            "redis-sentinel://a:1/secret#m",
            "redis-cluster://a:1,b:2/3",
            "redis-cluster://a:1?db=3",
        ] {
            let error = Address::parse(url).unwrap_err();
            let is_left_out = url.starts_with("redis-cluster") && !cfg!(feature = "cluster");
            let kind = if is_left_out { ErrorKind::Unsupported } else { ErrorKind::InvalidOption };
            assert_eq!(error.kind(), kind, "{url}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
