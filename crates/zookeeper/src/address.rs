//! Parsing of URLs: `zookeeper://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT][/CHROOT]`, or `zookeeper+tls://…`.

use std::fmt;

use tidelock_core::backend::{Login, MUST_BE_ENCODED};
use tidelock_core::{Error, ErrorKind, Result};

const PORT: u16 = 2181;
/// The node that every server reserves for itself.
pub(crate) const SERVERS_OWN: &str = "/zookeeper";
const SCHEME: &str = "zookeeper://";
const SCHEME_WITH_TLS: &str = "zookeeper+tls://";

/// The servers' addresses, and the user to connect as.
#[derive(Clone)]
pub(crate) struct Address {
    /// `HOST:PORT`, at least one.
    pub(crate) hosts: Vec<String>,
    /// The node below which all our nodes are: empty, or `/a/b`.
    pub(crate) chroot: String,
    /// `USER:PASSWORD`.
    pub(crate) digest: Option<String>,
    /// Whether to connect with TLS.
    pub(crate) has_tls: bool,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (rest, has_tls) = match (url.strip_prefix(SCHEME), url.strip_prefix(SCHEME_WITH_TLS)) {
            (Some(rest), _) => (rest, false),
            (_, Some(_)) if !cfg!(feature = "tls") => return Err(no_feature()),
            (_, Some(rest)) => (rest, true),
            _ => return Err(wrong("the URL must begin with zookeeper:// or zookeeper+tls://")),
        };
        let (places, chroot) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // It may be a part of the password, and the chroot is shown.
        if chroot.contains('@') {
            return Err(wrong(MUST_BE_ENCODED));
        }
        // A password may contain an @, a host must not.
        let (digest, places) = match places.rsplit_once('@') {
            Some((who, places)) => (Some(digest(who)?), places),
            None => (None, places),
        };
        let hosts = places.split(',').map(host).collect::<Option<Vec<_>>>();
        let hosts = hosts.ok_or_else(|| wrong("the URL must name its hosts as HOST[:PORT],HOST[:PORT]"))?;
        Ok(Self { hosts, chroot: chroot_of(chroot)?, digest, has_tls })
    }

    /// The connect string of one server for the client library.
    pub(crate) fn connect_string(&self, host: &str) -> String {
        let protocol = if self.has_tls { "tcp+tls://" } else { "tcp://" };
        format!("{protocol}{host}{}", self.chroot)
    }

    /// A name without secrets for operators. It does not depend on the order of the hosts.
    pub(crate) fn name(&self) -> String {
        let mut hosts: Vec<_> = self.hosts.iter().map(String::as_str).collect();
        hosts.sort_unstable();
        format!("zookeeper {}{}", hosts.join(","), self.chroot)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

fn digest(who: &str) -> Result<String> {
    let (user, password) = Login::of_url(who).map_err(wrong)?.into_parts();
    Ok(format!("{}:{password}", user.unwrap_or_default()))
}

/// `HOST:PORT` of `HOST[:PORT]`.
fn host(text: &str) -> Option<String> {
    let is_bare_v6 = text.starts_with('[') && text.ends_with(']');
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !is_bare_v6 => (name, port.parse().ok()?),
        _ => (text, PORT),
    };
    let is_host = !name.is_empty() && !name.contains(['?', '#', ' ']);
    is_host.then(|| format!("{name}:{port}"))
}

fn chroot_of(path: &str) -> Result<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_node = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path == SERVERS_OWN || path.strip_prefix(SERVERS_OWN).is_some_and(|rest| rest.starts_with('/')) {
        return Err(wrong("the node /zookeeper is the server's own; choose another path"));
    }
    if path.is_empty() || path[1..].split('/').all(is_node) {
        return Ok(path.to_owned());
    }
    Err(wrong("the part of the URL after the hosts must be the path of a node: /a/b"))
}

fn no_feature() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "zookeeper+tls:// needs the feature `tls` of the crate tidelock-zookeeper",
    )
}

/// The message must not contain the URL, which may have a password.
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (Vec<String>, Option<String>) {
        let address = Address::parse(url).unwrap();
        (address.hosts.iter().map(|host| address.connect_string(host)).collect(), address.digest)
    }

    #[test]
    fn hosts_chroot_and_user_are_told_apart() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("zookeeper://h"), (hosts(&["tcp://h:2181"]), None));
        assert_eq!(read("zookeeper://h:1,i/a/b/"), (hosts(&["tcp://h:1/a/b", "tcp://i:2181/a/b"]), None));
        assert_eq!(read("zookeeper://u:p@ss@h:1"), (hosts(&["tcp://h:1"]), Some("u:p@ss".into())));
        assert_eq!(read("zookeeper://[::1]:7,[::2]"), (hosts(&["tcp://[::1]:7", "tcp://[::2]:2181"]), None));
    }

    #[test]
    fn a_user_and_a_password_are_percent_encoded() {
        let read = |url| read(url).1.unwrap();
        assert_eq!(read("zookeeper://u%C3%A9:p%40s%2Fs%25@h/a"), "ué:p@s/s%");
        let refused = |url| Address::parse(url).unwrap_err().to_string();
        assert!(refused("zookeeper://admin:2024/07secret@zk").contains("percent-encoded"));
        assert!(refused("zookeeper://u:100%@zk").contains("%25"));
    }

    #[test]
    fn tls_is_part_of_the_url() {
        if cfg!(feature = "tls") {
            assert_eq!(read("zookeeper+tls://h,i:1/a").0, ["tcp+tls://h:2181/a", "tcp+tls://i:1/a"]);
        } else {
            assert_eq!(Address::parse("zookeeper+tls://h").unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn one_store_has_one_name_and_no_password_in_it() {
        let [a, b] = ["zookeeper://u:secret@b:1,a:1/c", "zookeeper://a:1,b:1/c"].map(Address::parse);
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.name(), b.name());
        assert!(!format!("{a:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_url_of_a_zookeeper_is_refused_and_not_repeated() {
        for url in [
            "h:1",
            "redis://h",
            "zookeeper://",
            "zookeeper://h:x",
            "zookeeper://h,",
            "zookeeper://secret@h",
            "zookeeper://h?x=1",
            "zookeeper://admin:2024/07secret@zk:2181",
            "zookeeper://u:100%secret@h",
            "zookeeper://u:secret%ff@h",
        ]
        .into_iter()
        .chain(["zookeeper://h/a//b", "zookeeper://h/../a", "zookeeper://h/zookeeper/"])
        {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
