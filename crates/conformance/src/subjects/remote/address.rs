//! A URL taken apart as far as a proxy and another password need it: `scheme://who@host:port/rest`.

use std::net::SocketAddr;

use tidelock::{Error, ErrorKind, Result};

/// Where one server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    scheme: String,
    who: Option<String>,
    host: String,
    port: u16,
    rest: String,
}

impl Address {
    /// The address in a URL of one server.
    pub(super) fn of(url: &str, default_port: u16) -> Result<Self> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidOption, format!("the URL {what}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (who, place) = match authority.rsplit_once('@') {
            Some((who, place)) => (Some(who.to_owned()), place),
            None => (None, authority),
        };
        if place.contains(',') {
            return Err(wrong("names several servers"));
        }
        let colon = place.rfind(':').filter(|colon| !place[*colon..].contains(']'));
        let (host, port) = match colon {
            Some(colon) => {
                (&place[..colon], place[colon + 1..].parse().map_err(|_| wrong("has a strange port"))?)
            }
            None => (place, default_port),
        };
        let owned = |text: &str| text.to_owned();
        Ok(Self { scheme: owned(scheme), who, host: owned(host), port, rest: owned(rest) })
    }

    /// The address as the network knows it.
    pub(super) async fn resolve(&self) -> Result<SocketAddr> {
        let host = self.host.trim_matches(['[', ']']);
        let nobody = || Error::new(ErrorKind::Unavailable, format!("nobody knows the host {host:?}"));
        let mut found =
            tokio::net::lookup_host((host, self.port)).await.map_err(|error| nobody().because(error))?;
        found.next().ok_or_else(nobody)
    }

    /// The same server by another way.
    pub(super) fn by(&self, way: SocketAddr) -> Self {
        let host = if way.is_ipv6() { format!("[{}]", way.ip()) } else { way.ip().to_string() };
        Self { host, port: way.port(), ..self.clone() }
    }

    /// The same as somebody else. Neither may hold what a URL has to escape.
    pub(super) fn as_user(&self, user: &str, password: &str) -> Self {
        Self { who: Some(format!("{user}:{password}")), ..self.clone() }
    }

    pub(super) fn url(&self) -> String {
        let Self { scheme, who, host, port, rest } = self;
        let who = who.as_ref().map(|who| format!("{who}@")).unwrap_or_default();
        format!("{scheme}://{who}{host}:{port}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_put_together_again() {
        for url in ["redis://h:1", "redis://h:1/0?x=y", "mysql://a:b@c@h:1/db", "redis://:p@[::1]:7/3"] {
            assert_eq!(Address::of(url, 9).unwrap().url(), url);
        }
        assert_eq!(Address::of("redis://h/2", 9).unwrap().url(), "redis://h:9/2");
        assert_eq!(Address::of("redis://[::1]", 9).unwrap().url(), "redis://[::1]:9");
    }

    #[test]
    fn another_way_and_another_user_change_nothing_else() {
        let address = Address::of("redis://a:b@h:1/2", 9).unwrap();
        assert_eq!(address.by(([127, 0, 0, 1], 5).into()).url(), "redis://a:b@127.0.0.1:5/2");
        assert_eq!(address.as_user("c", "d").url(), "redis://c:d@h:1/2");
    }

    #[test]
    fn what_is_not_one_server_is_refused() {
        for url in ["h:1", "redis://a,b:1", "redis://h:x"] {
            assert_eq!(Address::of(url, 9).unwrap_err().kind(), ErrorKind::InvalidOption, "{url}");
        }
    }
}
