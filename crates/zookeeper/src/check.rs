//! Checks of a server before it is used: whether it is a ZooKeeper that serves, whether it has the features that lines
//! need, and whether this user has the permissions.

use std::future::Future;
use std::io;
use std::time::Duration;

use tidelock_core::backend::{Clock, server_kind};
use tidelock_core::{Error, ErrorKind, Result, SessionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use zookeeper_client::Error as Said;

use crate::link::{Change, Link};
use crate::nodes::Nodes;
use crate::server_time::ServerTime;
use crate::tls::{self, Tls};
use crate::trouble;

/// How long a server may take to report its state.
const SAYS_WITHIN: Duration = Duration::from_secs(1);
/// How long it may take to finish a reply that it has begun.
const GOES_ON_WITHIN: Duration = Duration::from_millis(200);
/// After this time without a reply the next server is asked too, and a silent one is sent another request.
pub(crate) const PATIENT: Duration = Duration::from_millis(300);

/// A command that every ZooKeeper answers by default.
const LETTERS: &[u8] = b"srvr\n";
/// A request for other servers, which wait for more than one line.
const WEB: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Creates the namespace's node, and tries each kind of request once, on a line that no other client uses and that is
/// deleted again.
pub(crate) async fn permissions(
    link: &Link,
    nodes: &Nodes,
    session: SessionId,
    clock: &dyn Clock,
) -> Result<ServerTime> {
    let line = nodes.line(&format!("tidelock check {session}"));
    let path = |error: &Said| match error {
        Said::NoNode => Error::new(
            ErrorKind::InvalidOption,
            format!(
                "{} does not have the node of the URL's path; create it with zkCli: create /PATH",
                link.place
            ),
        ),
        Said::UnmarshalError { .. } => trouble::from(&Said::Unimplemented, &link.place),
        error => trouble::from(error, &link.place),
    };
    link.make_root(nodes.root()).await.map_err(|error| path(&error))?;
    let parts = vec![Change::Line(line.clone()), Change::Node(format!("{line}/check-"), "".into())];
    let (tried, own, read) = (link.make(&parts, nodes.root()), link.own(&line), link.read(nodes.root()));
    let tried = tried.await.map_err(|error| path(&error.into()))?;
    let at = clock.now();
    own.await.map_err(|error| path(&error))?;
    read.await.map_err(|error| path(&error))?;
    let gone = tried.paths.into_iter().rev().map(Change::Delete);
    link.transact(gone.collect()).await.map_err(|error| path(&error.into()))?;
    Ok(ServerTime { millis: tried.at, at })
}

/// A survey of the servers' states.
pub(crate) struct Survey {
    /// The servers that are not asked yet, the next one last.
    rest: Vec<String>,
    asking: JoinSet<(String, Condition)>,
    found: Vec<(String, Condition)>,
    tls: Option<Tls>,
}

impl Survey {
    pub(crate) fn begin(hosts: Vec<String>, tls: Option<Tls>) -> Self {
        Self { rest: hosts, asking: JoinSet::new(), found: Vec::new(), tls }
    }

    /// The next server that replies or cannot be reached. Servers that hang come last.
    pub(crate) async fn next(&mut self) -> Option<(String, Condition)> {
        loop {
            if self.asking.is_empty() {
                self.ask_another();
            }
            let is_more = !self.rest.is_empty();
            let answer = tokio::select! {
                answer = self.asking.join_next() => answer?,
                () = tokio::time::sleep(PATIENT), if is_more => {
                    self.ask_another();
                    continue;
                }
            };
            let Ok(found) = answer else { continue };
            self.found.push(found.clone());
            return Some(found);
        }
    }

    /// The results so far.
    pub(crate) fn found(&self) -> &[(String, Condition)] {
        &self.found
    }

    fn ask_another(&mut self) {
        if let Some(host) = self.rest.pop() {
            let tls = self.tls.clone();
            self.asking.spawn(async move {
                let asked = tokio::time::timeout(SAYS_WITHIN, ask(&host, tls.as_ref())).await;
                let condition = match asked {
                    Err(_) => Condition::Nothing,
                    Ok(said) => Condition::heard(&said),
                };
                (host, condition)
            });
        }
    }
}

/// Why no server could be used. None: their replies do not tell.
pub(crate) fn what_is_wrong(found: &[(String, Condition)]) -> Option<Error> {
    let hosts = || found.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>().join(",");
    let all = |wanted: Condition| found.iter().all(|(_, condition)| *condition == wanted);
    let any = |wanted: Condition| {
        found.iter().find(|(_, condition)| *condition == wanted).map(|(host, _)| host.as_str())
    };
    let mistrusted = found.iter().find_map(|(host, condition)| match condition {
        Condition::Mistrusted(why) => Some((host, why)),
        _ => None,
    });
    let (kind, message) = if let Some(others) = others(found) {
        (ErrorKind::Protocol, others)
    } else if let Some(host) = any(Condition::NoQuorum) {
        (
            ErrorKind::Unavailable,
            format!("zookeeper at {host} is not serving: it is starting, or its ensemble has no majority"),
        )
    } else if let Some(host) = any(Condition::ReadOnly) {
        let wrong = format!("zookeeper at {host} is read-only: it is cut off from its ensemble");
        (ErrorKind::Unavailable, wrong)
    } else if let Some((host, why)) = mistrusted {
        (
            ErrorKind::Denied,
            format!(
                "TLS with {host} failed: {why}; check that each side trusts the certificate of the other"
            ),
        )
    } else if all(Condition::NoTls) {
        (ErrorKind::Protocol, format!("{} does not speak TLS; is this its secureClientPort?", hosts()))
    } else if all(Condition::Closed) {
        let wrong = "closes every connection without a reply: it expects TLS (then use zookeeper+tls://), \
                     or this host has reached its limit of connections there (maxClientCnxns)";
        (ErrorKind::Unavailable, format!("{} {wrong}", hosts()))
    } else if all(Condition::Nobody) {
        (ErrorKind::Unavailable, format!("no server answers at {}", hosts()))
    } else {
        return None;
    };
    Some(Error::new(kind, message))
}

/// Describes the servers if none of them is a ZooKeeper.
fn others(found: &[(String, Condition)]) -> Option<String> {
    let of = |(host, condition): &(String, Condition)| match condition {
        Condition::Other(Some(what)) => {
            Some(format!("{host} is {what}, not a ZooKeeper; check the URL's host and port"))
        }
        Condition::Other(None) => Some(format!("{host} does not answer like a ZooKeeper; is it one?")),
        Condition::Nobody => Some(format!("no server answers at {host}")),
        _ => None,
    };
    let is_any = found.iter().any(|(_, condition)| matches!(condition, Condition::Other(_)));
    let all = found.iter().map(of).collect::<Option<Vec<_>>>();
    all.filter(|_| is_any).map(|all| all.join("; "))
}

/// A server's reply to the four-letter command that every ZooKeeper answers by default. If there is none, its reply to
/// a web request.
async fn ask(host: &str, tls: Option<&Tls>) -> io::Result<Vec<u8>> {
    let letters = say(host, tls, LETTERS);
    tokio::pin!(letters);
    match tokio::time::timeout(PATIENT, &mut letters).await {
        Ok(said) if Condition::heard(&said) == Condition::Closed => match say(host, tls, WEB).await {
            Ok(more) if !more.is_empty() => Ok(more),
            _ => said,
        },
        Ok(said) => said,
        Err(_) => tokio::select! {
            said = letters => said,
            said = answered(say(host, tls, WEB)) => Ok(said),
        },
    }
}

/// Only a real reply counts: a ZooKeeper would hang up.
async fn answered(saying: impl Future<Output = io::Result<Vec<u8>>>) -> Vec<u8> {
    match saying.await {
        Ok(said) if !said.is_empty() => said,
        _ => std::future::pending().await,
    }
}

async fn say(host: &str, tls: Option<&Tls>, what: &[u8]) -> io::Result<Vec<u8>> {
    match tls {
        Some(tls) => hear(tls.connect(host).await?, what).await,
        None => hear(TcpStream::connect(host).await?, what).await,
    }
}

async fn hear(mut server: impl AsyncRead + AsyncWrite + Unpin, what: &[u8]) -> io::Result<Vec<u8>> {
    server.write_all(what).await?;
    let (mut server, mut said) = (server.take(4096), Vec::new());
    server.read_buf(&mut said).await?;
    if Condition::of(&said).serves() {
        return Ok(said);
    }
    let rest = async { while server.read_buf(&mut said).await.is_ok_and(|read| read > 0) {} };
    // A ZooKeeper ends the connection now; other servers may keep it open.
    let _ = tokio::time::timeout(GOES_ON_WITHIN, rest).await;
    Ok(said)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It is a ZooKeeper, and serves.
    Well,
    NoQuorum,
    ReadOnly,
    /// It is no ZooKeeper. `Some`: what it is instead.
    Other(Option<&'static str>),
    /// It and this client do not accept each other's certificates.
    Mistrusted(String),
    NoTls,
    /// It accepted the connection, and closed it without a reply.
    Closed,
    /// It accepted the connection, and did not reply.
    Nothing,
    Nobody,
}

impl Condition {
    pub(crate) fn serves(&self) -> bool {
        *self == Self::Well
    }

    /// Its state is unknown: it may be forbidden to report it, or slow.
    pub(crate) fn may_serve(&self) -> bool {
        matches!(self, Self::Closed | Self::Nothing)
    }

    fn heard(said: &io::Result<Vec<u8>>) -> Self {
        match said {
            Ok(said) => Self::of(said),
            Err(error) => Self::of_error(error),
        }
    }

    fn of(said: &[u8]) -> Self {
        let text = String::from_utf8_lossy(said);
        match text.as_ref() {
            "" => Self::Closed,
            said if said.contains("not currently serving requests") => Self::NoQuorum,
            said if said.contains("Mode: read-only") => Self::ReadOnly,
            said if said.starts_with("Zookeeper version") || said.contains("whitelist") => Self::Well,
            _ => Self::Other(server_kind(said)),
        }
    }

    fn of_error(error: &io::Error) -> Self {
        match (tls::mistrust(error), error.kind()) {
            (Some(why), _) => Self::Mistrusted(why),
            (None, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => Self::NoTls,
            (None, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => Self::Closed,
            _ => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_what_it_says_of_itself() {
        let of = |said: &str| Condition::of(said.as_bytes());
        assert_eq!(of("Zookeeper version: 3.8.0\nMode: standalone\n"), Condition::Well);
        assert_eq!(of("Zookeeper version: 3.8.0\nMode: read-only\n"), Condition::ReadOnly);
        assert_eq!(of("srvr is not executed because it is not in the whitelist."), Condition::Well);
        assert_eq!(of("This ZooKeeper instance is not currently serving requests\n"), Condition::NoQuorum);
        assert_eq!(of("hello"), Condition::Other(None));
        assert_eq!(Condition::of_error(&io::ErrorKind::ConnectionRefused.into()), Condition::Nobody);
    }

    #[test]
    fn what_is_no_zookeeper_is_called_by_its_name() {
        assert_eq!(Condition::of(b"-ERR unknown command 'srvr'\r\n"), Condition::Other(Some("a Redis")));
    }
}
