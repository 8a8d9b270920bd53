//! Finds out what is at an address that does not answer like an etcd.

use std::time::Duration;

use tidelock_core::backend::server_kind;
use tidelock_core::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a server may take to say something.
const SAYS_WITHIN: Duration = Duration::from_millis(500);

const REQUEST: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// The beginning of TLS, but empty. Who speaks TLS answers with an alert; to a plain request an etcd says nothing then.
const HELLO: &[u8] = &[22, 3, 1, 0, 4, 1, 0, 0, 0];

/// What is wrong with the server at this address. None: it may be an etcd that cannot serve now.
pub(crate) async fn what_is_at(host: &str, has_tls: bool) -> Option<Error> {
    let said = match heard(host, REQUEST).await {
        Some(Ok(said)) => said,
        Some(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            let wrong = format!(
                "etcd {host} cannot be reached: nothing listens there; check that it is up and that the address is right"
            );
            return Some(Error::new(ErrorKind::Unavailable, wrong));
        }
        _ => return None,
    };
    let is_mute = said.is_empty() && !has_tls;
    let said = if is_mute { heard(host, HELLO).await.and_then(Result::ok).unwrap_or_default() } else { said };
    if is_mute && said.is_empty() {
        let wrong = format!(
            "{host} closes every connection without an answer: it is a proxy and no etcd serves behind it, or it is not an etcd"
        );
        return Some(Error::new(ErrorKind::Unavailable, wrong));
    }
    let wrong = match server_kind(&said) {
        Some("an etcd") if has_tls => {
            format!("{host} is an etcd that does not speak TLS; use etcd:// in the URL")
        }
        Some("an etcd") => return None,
        Some("something that speaks TLS") if !has_tls => {
            format!("{host} speaks TLS; use etcds:// in the URL")
        }
        Some(other) => format!("{host} is not an etcd: it is {other}"),
        None if has_tls => return None,
        None => format!("{host} is not an etcd"),
    };
    Some(Error::new(ErrorKind::Protocol, wrong))
}

/// What it says to that. None: nothing yet.
async fn heard(host: &str, request: &[u8]) -> Option<std::io::Result<Vec<u8>>> {
    tokio::time::timeout(SAYS_WITHIN, hear(host, request)).await.ok()
}

async fn hear(host: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(host).await?;
    server.write_all(request).await?;
    let mut said = vec![0; 4096];
    let mut heard = 0;
    // A web server's reply has its body in a second packet.
    while heard < said.len() {
        match server.read(&mut said[heard..]).await {
            Ok(0) => break,
            Ok(more) => heard += more,
            Err(error) if heard == 0 && error.kind() != std::io::ErrorKind::ConnectionReset => {
                return Err(error);
            }
            Err(_) => break,
        }
        let is_web = said.starts_with(b"HTTP/");
        if !is_web || server_kind(&said[..heard]) == Some("an etcd") {
            break;
        }
    }
    said.truncate(heard);
    Ok(said)
}
