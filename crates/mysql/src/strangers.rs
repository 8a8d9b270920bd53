//! Names the server on a wrong port: a MySQL greets first, and other servers answer other questions.

use std::time::Duration;

use tidelock_core::backend::server_kind;
use tidelock_core::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::Address;

/// How long to wait for an answer.
const PATIENT: Duration = Duration::from_millis(300);
/// A ZooKeeper answers this by default, and a Redis refuses it.
const LETTERS: &[u8] = b"srvr\r\n";
/// Servers that wait for more than one line answer this.
const WEB: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Replaces `error` if there is something else at the address. Otherwise returns it unchanged.
pub(crate) async fn explain(error: Error, address: &Address, within: Duration) -> Error {
    if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Protocol | ErrorKind::Timeout) {
        return error;
    }
    let options = address.options();
    if options.get_socket().is_some() {
        return error;
    }
    for question in [LETTERS, WEB] {
        let mut said = Vec::new();
        let hearing = hear(options.get_host(), options.get_port(), question, &mut said);
        let _ = timeout(within.min(PATIENT), hearing).await; // it may keep the connection open
        match server_kind(&said) {
            Some("a MySQL or a MariaDB") => return error,
            Some(what) => {
                let wrong = format!(
                    "{} is {what}, not a MySQL or a MariaDB; check the host and the port in the URL",
                    address.name()
                );
                return Error::new(ErrorKind::Protocol, wrong).because(error);
            }
            None => {}
        }
    }
    error
}

async fn hear(host: &str, port: u16, question: &[u8], said: &mut Vec<u8>) -> std::io::Result<()> {
    let mut server = TcpStream::connect((host, port)).await?;
    server.write_all(question).await?;
    let mut server = server.take(4_096);
    while server_kind(said).is_none_or(|what| what == "a web server") && server.read_buf(said).await? > 0 {}
    Ok(())
}
