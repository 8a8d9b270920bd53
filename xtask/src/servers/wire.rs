//! One request to a server over plain TCP, with limits on everything.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that serves replies at once; if it does not, the caller asks again.
const LIMIT: Duration = Duration::from_secs(1);

/// Sends a request and reads the reply to its end. None: no connection, or no reply. A partial reply is returned as far
/// as it came.
pub(super) fn ask(port: u16, request: &str) -> Option<String> {
    let mut stream = connect(port)?;
    stream.write_all(request.as_bytes()).ok()?;
    read_all(stream)
}

/// The same for a server that would wait for the next request: closing our side makes it end the connection.
pub(super) fn ask_once(port: u16, request: &str) -> Option<String> {
    let mut stream = connect(port)?;
    stream.write_all(request.as_bytes()).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    read_all(stream)
}

fn read_all(mut stream: TcpStream) -> Option<String> {
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..read]);
    }
    (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
}

/// The first bytes that a server sends by itself.
pub(super) fn greeting(port: u16) -> Option<Vec<u8>> {
    let mut stream = connect(port)?;
    let mut bytes = vec![0; 256];
    let read = stream.read(&mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

fn connect(port: u16) -> Option<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.set_write_timeout(Some(LIMIT)).ok()?;
    Some(stream)
}
