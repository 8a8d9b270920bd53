//! Parsing of URLs: `etcd://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT][/PREFIX]`, or `etcds://…`.

use std::fmt;
use std::net::Ipv6Addr;

use tidelock_core::backend::{Login, MUST_BE_ENCODED};
use tidelock_core::{Error, ErrorKind, Result};

const PORT: u16 = 2379;
const SCHEME: &str = "etcd://";
const SCHEME_WITH_TLS: &str = "etcds://";

/// The members' addresses, the user to log in as, and what all our keys begin with.
#[derive(Clone)]
pub(crate) struct Address {
    /// `HOST:PORT`, at least one.
    pub(crate) hosts: Vec<String>,
    /// Empty, or `a/b/`.
    pub(crate) prefix: String,
    pub(crate) user: Option<(String, String)>,
    pub(crate) has_tls: bool,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (rest, has_tls) = match (url.strip_prefix(SCHEME), url.strip_prefix(SCHEME_WITH_TLS)) {
            (Some(rest), _) => (rest, false),
            (_, Some(_)) if !cfg!(feature = "tls") => return Err(no_feature()),
            (_, Some(rest)) => (rest, true),
            _ => return Err(wrong("the URL must begin with etcd:// or etcds://")),
        };
        let (places, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // What is before it may be a password, or what is behind it a part of the prefix. If the wrong one were taken, a
        // password would be shown, or sent to another host.
        if path.contains('@') {
            return Err(wrong(MUST_BE_ENCODED));
        }
        // A password may contain an @, a host must not.
        let (user, places) = match places.rsplit_once('@') {
            Some((who, places)) => (Some(user(who)?), places),
            None => (None, places),
        };
        let hosts = places.split(',').map(host).collect::<Option<Vec<_>>>();
        let hosts = hosts.ok_or_else(|| wrong("the URL must name its hosts as HOST[:PORT],HOST[:PORT]"))?;
        Ok(Self { hosts, prefix: prefix(path)?, user, has_tls })
    }

    /// The URL of one member for the client library.
    pub(crate) fn uri(&self, host: &str) -> String {
        format!("{}://{host}", if self.has_tls { "https" } else { "http" })
    }

    /// A name without secrets for operators. It does not depend on the order of the hosts.
    pub(crate) fn name(&self) -> String {
        let mut hosts: Vec<_> = self.hosts.iter().map(String::as_str).collect();
        hosts.sort_unstable();
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("etcd {}{slash}{}", hosts.join(","), self.prefix.trim_end_matches('/'))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

fn user(who: &str) -> Result<(String, String)> {
    let (user, password) = Login::of_url(who).map_err(wrong)?.into_parts();
    Ok((user.unwrap_or_default(), password))
}

/// `HOST:PORT` of `HOST[:PORT]`.
fn host(text: &str) -> Option<String> {
    let is_bare_v6 = text.starts_with('[') && text.ends_with(']');
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !is_bare_v6 => (name, port.parse().ok().filter(|port| *port > 0)?),
        _ => (text, PORT),
    };
    let is_host = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
    };
    is_host.then(|| format!("{name}:{port}"))
}

fn prefix(path: &str) -> Result<String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(String::new());
    }
    if path.split('/').any(str::is_empty) || path.contains(['?', '#']) || path.contains(char::is_control) {
        return Err(wrong("the part of the URL after the hosts must be the beginning of our keys: /a/b"));
    }
    Ok(format!("{path}/"))
}

fn no_feature() -> Error {
    Error::new(ErrorKind::Unsupported, "etcds:// needs the feature `tls` of the crate tidelock-etcd")
}

/// The message must not contain the URL, which may have a password.
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (Vec<String>, String, Option<(String, String)>) {
        let address = Address::parse(url).unwrap();
        (address.hosts.iter().map(|host| address.uri(host)).collect(), address.prefix, address.user)
    }

    #[test]
    fn hosts_prefix_and_user_are_told_apart() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let user = |password: &str| Some(("u".to_owned(), password.to_owned()));
        assert_eq!(read("etcd://h"), (hosts(&["http://h:2379"]), String::new(), None));
        assert_eq!(read("etcd://h:1,i/a/b/"), (hosts(&["http://h:1", "http://i:2379"]), "a/b/".into(), None));
        assert_eq!(read("etcd://u:p@s@h:1/a"), (hosts(&["http://h:1"]), "a/".into(), user("p@s")));
        assert_eq!(read("etcd://[::1]:7,[::2]").0, hosts(&["http://[::1]:7", "http://[::2]:2379"]));
    }

    #[test]
    fn a_user_and_a_password_are_percent_encoded() {
        let user = read("etcd://u%C3%A9%3A:p%40s%2Fs%25@h/a").2;
        assert_eq!(user, Some(("ué:".to_owned(), "p@s/s%".to_owned())));
        assert!(Address::parse("etcd://u:100%@h").unwrap_err().to_string().contains("%25"));
    }

    #[test]
    fn an_at_behind_the_hosts_sends_no_password_elsewhere() {
        for url in [
            "etcd://u:secret@10.0.0.1/team@prod",
            "etcd://u:secret@10.0.0.1?team@prod",
            "etcd://u:secret@10.0.0.1#team@prod",
            "etcd://u:12/secret@h",
            "etcd://h/team@prod",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(error.to_string().contains(MUST_BE_ENCODED), "{url}: {error}");
        }
    }

    #[test]
    fn tls_is_part_of_the_url() {
        if cfg!(feature = "tls") {
            assert_eq!(read("etcds://h,i:1").0, ["https://h:2379", "https://i:1"]);
        } else {
            assert_eq!(Address::parse("etcds://h").unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn one_store_has_one_name_and_no_password_in_it() {
        let [a, b] = ["etcd://u:secret@b:1,a:1/c", "etcd://a:1,b:1/c"].map(Address::parse);
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.name(), b.name());
        assert!(!format!("{a:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_url_of_an_etcd_is_refused_and_not_repeated() {
        for url in [
            "h:1",
            "redis://h",
            "etcd://",
            "etcd://h:x",
            "etcd://h,",
            "etcd://h:0",
            "etcd://h\n",
            "etcd://h\t:1",
            "etcd://hé",
            "etcd://::1",
            "etcd://[::1",
            "etcd://[h]",
            "etcd://[::1]x:1",
            "etcd://h:1:2",
            "etcd://secret@h",
            "etcd://h?x=1",
            "etcd://h/a//b",
            "etcd://h/a?b",
            "etcd://u:100%secret@h",
            "etcd://u:secret%ff@h",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
