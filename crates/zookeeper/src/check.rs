//! What a server is asked before it is trusted: whether it has what lines need, and whether this user may do all of it.
//! And what is wrong with servers that cannot be connected to, as they say themselves.

use std::io;
use std::time::Duration;

use tidelock::{Clock, Error, ErrorKind, Result, SessionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::Error as Said;

use crate::inspection::ServerTime;
use crate::link::{Change, Link};
use crate::nodes::Nodes;
use crate::tls::{self, Tls};
use crate::trouble;

/// How long a server may take to say what is wrong with it.
const SAYS_WITHIN: Duration = Duration::from_secs(1);
/// How long it may take to end what it has begun to say.
const GOES_ON_WITHIN: Duration = Duration::from_millis(200);

/// Makes the namespace's node, and tries everything once, on a line that nobody else uses and that is gone again.
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
            format!("{} has no node of the path in the URL; make it with zkCli: create /PATH", link.place),
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

/// What is wrong with servers that could not be connected to; None: nothing that they say.
pub(crate) async fn what_is_wrong(hosts: &[String], tls: Option<&Tls>) -> Option<Error> {
    let mut said = Vec::new();
    for host in hosts {
        let asked = tokio::time::timeout(SAYS_WITHIN, ask(host, tls)).await;
        let condition = match asked {
            Err(_) => Condition::Nothing,
            Ok(Ok(said)) => Condition::of(&said),
            Ok(Err(error)) => Condition::of_error(&error),
        };
        said.push((host, condition));
    }
    let all = |wanted: Condition| said.iter().all(|(_, said)| *said == wanted);
    let any = |wanted: Condition| said.iter().find(|(_, said)| *said == wanted).map(|(host, _)| *host);
    let mistrusted = said.iter().find_map(|(host, said)| match said {
        Condition::Mistrusted(why) => Some((host, why)),
        _ => None,
    });
    let (kind, message) = if all(Condition::Other) {
        (ErrorKind::Protocol, format!("{} does not answer as ZooKeeper does; is it one?", hosts.join(",")))
    } else if let Some(host) = any(Condition::NoQuorum) {
        (
            ErrorKind::Unavailable,
            format!(
                "zookeeper at {host} does not serve now: it is starting, or its ensemble has no majority"
            ),
        )
    } else if let Some(host) = any(Condition::ReadOnly) {
        let wrong = format!("zookeeper at {host} only lets itself be read: it is cut off from its ensemble");
        (ErrorKind::Unavailable, wrong)
    } else if let Some((host, why)) = mistrusted {
        (ErrorKind::Denied, format!("TLS to {host} has come to nothing: {why}"))
    } else if all(Condition::NoTls) {
        (ErrorKind::Protocol, format!("{} speaks no TLS; is that its secureClientPort?", hosts.join(",")))
    } else if all(Condition::Closed) {
        let wrong = "ends every connection without a word: it speaks TLS (then the URL begins with zookeeper+tls://), \
                     or has as many connections as it lets this host have (maxClientCnxns)";
        (ErrorKind::Unavailable, format!("{} {wrong}", hosts.join(",")))
    } else if all(Condition::Nobody) {
        (ErrorKind::Unavailable, format!("nobody answers at {}", hosts.join(",")))
    } else {
        return None;
    };
    Some(Error::new(kind, message))
}

/// What a server says to the four letters that every one answers by default.
async fn ask(host: &str, tls: Option<&Tls>) -> io::Result<String> {
    match tls {
        Some(tls) => hear(tls.connect(host).await?).await,
        None => hear(TcpStream::connect(host).await?).await,
    }
}

async fn hear(mut server: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
    server.write_all(b"srvr\n").await?;
    let (mut server, mut said) = (server.take(4096), Vec::new());
    server.read_buf(&mut said).await?;
    let rest = async { while server.read_buf(&mut said).await.is_ok_and(|read| read > 0) {} };
    // A ZooKeeper ends the connection now; others may have answered, and go on listening.
    let _ = tokio::time::timeout(GOES_ON_WITHIN, rest).await;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// It is one, and serves.
    Well,
    NoQuorum,
    ReadOnly,
    /// It is no ZooKeeper.
    Other,
    /// It and this client do not accept each other's certificates.
    Mistrusted(String),
    NoTls,
    /// It took the connection, and ended it without a word.
    Closed,
    /// It took the connection, and said nothing.
    Nothing,
    Nobody,
}

impl Condition {
    fn of(said: &str) -> Self {
        match said {
            "" => Self::Closed,
            said if said.contains("not currently serving requests") => Self::NoQuorum,
            said if said.contains("Mode: read-only") => Self::ReadOnly,
            said if said.starts_with("Zookeeper version") || said.contains("whitelist") => Self::Well,
            _ => Self::Other,
        }
    }

    fn of_error(error: &io::Error) -> Self {
        match (tls::mistrust(error), error.kind()) {
            (Some(why), _) => Self::Mistrusted(why),
            (None, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => Self::NoTls,
            _ => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_what_it_says_of_itself() {
        assert_eq!(Condition::of("Zookeeper version: 3.8.0\nMode: standalone\n"), Condition::Well);
        assert_eq!(Condition::of("Zookeeper version: 3.8.0\nMode: read-only\n"), Condition::ReadOnly);
        assert_eq!(
            Condition::of("srvr is not executed because it is not in the whitelist."),
            Condition::Well
        );
        assert_eq!(
            Condition::of("This ZooKeeper instance is not currently serving requests\n"),
            Condition::NoQuorum
        );
        assert_eq!(Condition::of("HTTP/1.1 400 Bad Request"), Condition::Other);
        assert_eq!(Condition::of_error(&io::ErrorKind::ConnectionRefused.into()), Condition::Nobody);
    }
}
