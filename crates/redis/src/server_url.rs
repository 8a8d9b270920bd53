//! Reads the URL of one server, strictly: what a URL says is used or refused, never ignored.
//!
//! No error repeats any part of the URL, because a misplaced password may be in any part. The library's own errors may
//! quote it, so they are never passed on.

use redis::{ConnectionInfo, IntoConnectionInfo};
use tidelock_core::backend::MUST_BE_ENCODED;
use tidelock_core::{Error, ErrorKind, Result};

const NO_HOST: &str = "the URL names no host: redis://HOST:PORT";
const NO_PORT: &str = "the port in the URL must be a number from 0 to 65535: redis://HOST:6379";
const NO_DATABASE: &str = "the database in the URL must be a number: redis://HOST:PORT/0";
const NO_QUERY: &str = "the URL of a server must have nothing after a ?; the user, the password and the database are \
                        given so: redis://USER:PASSWORD@HOST:PORT/DATABASE";
const NO_FRAGMENT: &str = "the URL of a server must have nothing after a #; a master's name belongs to the URL of its \
                           sentinels: redis-sentinel://HOST:PORT#NAME";
const ONLY_OF_SOCKET: &str =
    "the URL of a socket takes only redis+unix:///PATH?db=DATABASE&user=USER&pass=PASSWORD";
const NO_URL: &str = "this is not a Redis URL; use redis://USER:PASSWORD@HOST:PORT/DATABASE";

/// How to connect to the server at this URL.
pub(crate) fn read(url: &str) -> Result<ConnectionInfo> {
    const FEATURE: &str = "TLS needs the feature `tls` of tidelock-redis";
    check(url).map_err(|what| Error::new(ErrorKind::InvalidOption, what))?;
    match url.into_connection_info() {
        Ok(info) if !info.addr().is_supported() => Err(Error::new(ErrorKind::Unsupported, FEATURE)),
        Ok(info) => Ok(info),
        Err(_) if url.starts_with("rediss://") && !cfg!(feature = "tls") => {
            Err(Error::new(ErrorKind::Unsupported, FEATURE))
        }
        Err(_) => Err(Error::new(ErrorKind::InvalidOption, NO_URL)),
    }
}

/// Says which part of the URL is wrong.
fn check(url: &str) -> Result<(), &'static str> {
    match url.split_once("://") {
        Some(("redis", rest)) => check_network(rest, None),
        Some(("rediss", rest)) => check_network(rest, Some("insecure")), // no check of the certificate
        Some(("redis+unix", rest)) => check_socket(rest),
        _ => Err(NO_URL),
    }
}

/// `[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, and the one fragment that there may be.
fn check_network(rest: &str, only_fragment: Option<&str>) -> Result<(), &'static str> {
    let (places, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        return Err(MUST_BE_ENCODED);
    }
    check_place(places.rsplit_once('@').map_or(places, |(_, place)| place))?;
    let (tail, fragment) = tail.split_once('#').map_or((tail, None), |(tail, after)| (tail, Some(after)));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    if fragment.is_some_and(|fragment| !fragment.is_empty() && Some(fragment) != only_fragment) {
        return Err(NO_FRAGMENT);
    }
    if !query.is_empty() {
        return Err(NO_QUERY);
    }
    check_database(path.trim_matches('/'))
}

/// `HOST[:PORT]`. The host may be an IPv6 address in brackets.
fn check_place(place: &str) -> Result<(), &'static str> {
    let after_brackets = place.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match place[after_brackets..].find(':') {
        Some(at) => (&place[..after_brackets + at], &place[after_brackets + at + 1..]),
        None => (place, ""),
    };
    if host.is_empty() {
        return Err(NO_HOST);
    }
    if !port.is_empty() && port.parse::<u16>().is_err() {
        return Err(NO_PORT);
    }
    Ok(())
}

/// `/PATH[?db=DATABASE][&user=USER][&pass=PASSWORD]`.
fn check_socket(rest: &str) -> Result<(), &'static str> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path.contains('#') || query.contains('#') {
        return Err(ONLY_OF_SOCKET);
    }
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("db", database)) => check_database(database)?,
            Some(("user" | "pass", _)) => {}
            _ => return Err(ONLY_OF_SOCKET),
        }
    }
    Ok(())
}

fn check_database(database: &str) -> Result<(), &'static str> {
    let is_number = database.is_empty() || database.parse::<u32>().is_ok();
    if is_number { Ok(()) } else { Err(NO_DATABASE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_url_says_is_used_or_refused_with_the_part_that_is_wrong() {
        for (url, part) in [
            ("redis://h:7?db=3", "after a ?"),
            ("redis://h:7?sentinel_user=x", "after a ?"),
            ("redis://h:7?protocol=resp2", "after a ?"),
            ("redis://h:7/0?x=1", "after a ?"),
            ("redis://h:7#main", "after a #"),
            ("redis://h:7/3#insecure", "after a #"),
            ("redis://h:7/abc", "the database"),
            ("redis://h:7/3/4", "the database"),
            ("redis://h:7/-1", "the database"),
            ("redis://h:port", "the port"),
            ("redis://h:70000", "the port"),
            ("redis://[::1]:x", "the port"),
            ("redis://", "no host"),
            ("redis://:7", "no host"),
            ("redis://me:secret@:7", "no host"),
            ("redis://me:sec/ret@h:7", "percent-encoded"),
            ("redis://me:sec#ret@h:7", "percent-encoded"),
            ("redis+unix:///tmp/s?database=3", "?db=DATABASE"),
            ("redis+unix:///tmp/s?protocol=resp3", "?db=DATABASE"),
            ("redis+unix:///tmp/s?db=three", "the database"),
            ("http://h:7", "not a Redis URL"),
            ("redis", "not a Redis URL"),
        ] {
            let error = read(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            let text = error.to_string();
            assert!(text.contains(part), "{url}: {text}");
            assert!(!text.contains("sec") && !text.contains("me:"), "{url}: {text}");
        }
    }

    #[test]
    fn every_form_that_is_documented_is_read() {
        for (url, database) in [
            ("redis://h", 0),
            ("redis://h/", 0),
            ("redis://h:7/3", 3),
            ("redis://me:p%40ss@[::1]:7/3", 3),
            ("redis://:secret@h", 0),
            ("redis+unix:///tmp/s?db=2&user=me&pass=secret", 2),
        ] {
            assert_eq!(read(url).expect(url).redis_settings().db(), database, "{url}");
        }
    }
}
