//! Counts the requests that clients send to a server, packet by packet.
//!
//! The gate is on a thread of its own, which outlives the trials. It does not change what it carries.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use tidelock_conformance::Counts;

#[derive(Debug)]
pub(super) struct Gate {
    address: SocketAddr,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    commands: AtomicU64,
    signals: AtomicU64,
}

/// What a packet of a client is.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// A part of the handshake, or what a client sends at fixed intervals.
    Nothing,
    Command,
    /// A look after the bell.
    Heard,
}

impl Gate {
    pub(super) fn open(host: &str) -> io::Result<Self> {
        let tally = Arc::new(Tally::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (counting, host) = (tally.clone(), host.to_owned());
        thread::Builder::new().name("gate".into()).spawn(move || {
            runtime.block_on(async {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    keep(listener, host, counting).await;
                }
            });
        })?;
        Ok(Self { address, tally })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { commands: of(&self.tally.commands), signals: of(&self.tally.signals) }
    }
}

async fn keep(listener: tokio::net::TcpListener, host: String, tally: Arc<Tally>) {
    while let Ok((client, _)) = listener.accept().await {
        let (host, tally) = (host.clone(), tally.clone());
        tokio::spawn(async move {
            // If the server cannot be reached, the client is disconnected, as the server would do.
            let Ok(server) = TcpStream::connect(&host).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true)); // without it, only slower
            let ((from_client, to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            let mut to_client = to_client;
            let there = carry(from_client, &mut to_server, &tally);
            let back = tokio::io::copy(&mut from_server, &mut to_client);
            // When one side disconnects, the other is disconnected too.
            tokio::select! {
                _ = there => {}
                _ = back => {}
            }
        });
    }
}

async fn carry(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, tally: &Tally) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let before = read.len();
        if from.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        to.write_all(&read[before..]).await?;
        let mut rest = read.as_slice();
        while let Some((packet, behind)) = split(rest) {
            let kind = kind(packet);
            tally.commands.fetch_add(u64::from(kind != Kind::Nothing), Ordering::Relaxed);
            tally.signals.fetch_add(u64::from(kind == Kind::Heard), Ordering::Relaxed);
            rest = behind;
        }
        let done = read.len() - rest.len();
        read.drain(..done);
    }
}

/// The first packet, with its head of length and number, and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = bytes.get(..3)?.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    (bytes.len() >= length + 4).then(|| bytes.split_at(length + 4))
}

fn kind(packet: &[u8]) -> Kind {
    const QUERY: u8 = 3;
    let [_, _, _, 0, QUERY, text @ ..] = packet else { return Kind::Nothing };
    let text = String::from_utf8_lossy(text);
    let is_regular = [
        "UPDATE tidelock_session SET expires",
        "SELECT 'V'",
        "/* tidelock sweeps */",
        "SELECT 1 FROM (",
        "SET ",
        "SELECT VERSION",
        "SELECT version",
        "SELECT 'P'",
        "SELECT 'S'",
    ]
    .iter()
    .any(|words| text.starts_with(words));
    match text.contains("JOIN tidelock_line l ON l.name = c.name") {
        true => Kind::Heard,
        false if is_regular => Kind::Nothing,
        false => Kind::Command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8, text: &str) -> Vec<u8> {
        let length = u8::try_from(text.len() + 1).unwrap();
        [&[length, 0, 0, number, 3], text.as_bytes()].concat()
    }

    #[test]
    fn what_is_sent_at_fixed_intervals_is_no_command() {
        assert_eq!(kind(&packet(1, "handshake")), Kind::Nothing);
        assert_eq!(kind(&packet(0, "SELECT 1 FROM (SELECT a.n")), Kind::Nothing);
        assert_eq!(kind(&packet(0, "UPDATE tidelock_line SET session = 0")), Kind::Command);
    }

    #[test]
    fn packets_are_told_apart() {
        let bytes = [packet(0, "SELECT"), packet(0, "SET")].concat();
        let (first, rest) = split(&bytes).unwrap();
        assert_eq!((first.len(), rest.len()), (11, 8));
        assert!(split(&rest[..7]).is_none(), "a byte of the packet is still missing");
    }
}
