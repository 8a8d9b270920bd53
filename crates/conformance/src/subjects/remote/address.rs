//! Splits a URL as far as a proxy or another password needs it: `scheme://who@host:port,host:port/rest`.

use std::net::SocketAddr;

use tidelock_core::{Error, ErrorKind, Result};

/// The address of one server, or of several that serve together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    scheme: String,
    who: Option<String>,
    /// At least one.
    pub(super) places: Vec<Place>,
    rest: String,
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// The address in a URL.
    pub(super) fn of(url: &str, default_port: u16) -> Result<Self> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidOption, format!("the URL {what}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("has no scheme, such as redis://"))?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (who, place) = match authority.rsplit_once('@') {
            Some((who, place)) => (Some(who.to_owned()), place),
            None => (None, authority),
        };
        let places = place.split(',').map(|place| Place::of(place, default_port));
        let places = places.collect::<Option<_>>().ok_or_else(|| wrong("has a port that is not a number"))?;
        Ok(Self { scheme: scheme.to_owned(), who, places, rest: rest.to_owned() })
    }

    /// The same address by way of these proxies only.
    pub(super) fn by(&self, ways: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { places: ways.into_iter().map(Place::at).collect(), ..self.clone() }
    }

    /// The same address with another user. The name and the password must not need escaping.
    pub(super) fn as_user(&self, user: &str, password: &str) -> Self {
        Self { who: Some(format!("{user}:{password}")), ..self.clone() }
    }

    pub(super) fn url(&self) -> String {
        let Self { scheme, who, places, rest } = self;
        let who = who.as_ref().map(|who| format!("{who}@")).unwrap_or_default();
        let places: Vec<String> =
            places.iter().map(|Place { host, port }| format!("{host}:{port}")).collect();
        format!("{scheme}://{who}{}{rest}", places.join(","))
    }
}

impl Place {
    pub(super) fn at(address: SocketAddr) -> Self {
        let ip = address.ip();
        let host = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        Self { host, port: address.port() }
    }

    /// The IP address of this server.
    pub(super) async fn resolve(&self) -> Result<SocketAddr> {
        let host = self.host.trim_matches(['[', ']']);
        let nobody = || Error::new(ErrorKind::Unavailable, format!("cannot resolve the host {host:?}"));
        let mut found =
            tokio::net::lookup_host((host, self.port)).await.map_err(|error| nobody().because(error))?;
        found.next().ok_or_else(nobody)
    }

    /// `None` if the port is not a number.
    fn of(text: &str, default_port: u16) -> Option<Self> {
        let colon = text.rfind(':').filter(|colon| !text[*colon..].contains(']'));
        let (host, port) = match colon {
            Some(colon) => (&text[..colon], text[colon + 1..].parse().ok()?),
            None => (text, default_port),
        };
        Some(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_put_together_again() {
        for url in [
            "redis://h:1",
            "redis://h:1/0?x=y",
            "mysql://a:b@c@h:1/db",
            "redis://:p@[::1]:7/3",
            "a://b:1,c:2#d",
        ] {
            assert_eq!(Address::of(url, 9).unwrap().url(), url);
        }
        assert_eq!(Address::of("redis://h/2", 9).unwrap().url(), "redis://h:9/2");
        assert_eq!(Address::of("redis://[::1]", 9).unwrap().url(), "redis://[::1]:9");
    }

    #[test]
    fn another_way_and_another_user_change_nothing_else() {
        let address = Address::of("redis://a:b@h:1/2", 9).unwrap();
        let way = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(address.by([way(5)]).url(), "redis://a:b@127.0.0.1:5/2");
        assert_eq!(address.as_user("c", "d").url(), "redis://c:d@h:1/2");
        let several = Address::of("s://a:1,b:2#m", 9).unwrap();
        assert_eq!(several.by([way(5), way(6)]).url(), "s://127.0.0.1:5,127.0.0.1:6#m");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["h:1", "redis://h:x", "redis://a:1,b:y"] {
            assert_eq!(Address::of(url, 9).unwrap_err().kind(), ErrorKind::InvalidOption, "{url}");
        }
    }
}
