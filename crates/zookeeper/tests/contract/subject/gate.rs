//! Counts the requests that clients send to a ZooKeeper and the events that it sends, frame by frame.
//!
//! Each server has a gate on a thread of its own, which outlives the trials. Gates do not change what they carry.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use tidelock_conformance::Counts;

/// The gates to all servers.
#[derive(Debug)]
pub(super) struct Gates {
    addresses: Vec<SocketAddr>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    commands: AtomicU64,
    signals: AtomicU64,
}

impl Gates {
    pub(super) fn open(hosts: &[String]) -> io::Result<Self> {
        let tally = Arc::new(Tally::default());
        let (mut addresses, mut gates) = (Vec::new(), Vec::new());
        for host in hosts {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            gates.push((listener, host.clone()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counting = tally.clone();
        thread::Builder::new().name("gates".into()).spawn(move || {
            runtime.block_on(async {
                for (listener, host) in gates {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                    tokio::spawn(keep(listener, host, counting.clone()));
                }
                std::future::pending::<()>().await;
            });
        })?;
        Ok(Self { addresses, tally })
    }

    pub(super) fn url(&self) -> String {
        let hosts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        format!("zookeeper://{}", hosts.join(","))
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
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            let there = carry(from_client, to_server, |frame| {
                tally.commands.fetch_add(u64::from(is_command(frame)), Ordering::Relaxed);
            });
            let back = carry(from_server, to_client, |frame| {
                tally.signals.fetch_add(u64::from(number(frame, 0) == Some(-1)), Ordering::Relaxed);
            });
            // When one side disconnects, the other is disconnected too.
            tokio::select! {
                _ = there => {}
                _ = back => {}
            }
        });
    }
}

/// Carries frames, and shows each one to `count`, except the first, which opens the session.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: impl Fn(&[u8])) -> io::Result<()> {
    let (mut read, mut is_first) = (Vec::new(), true);
    loop {
        let before = read.len();
        if from.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        to.write_all(&read[before..]).await?;
        let mut rest = read.as_slice();
        while let Some((frame, behind)) = split(rest) {
            if !std::mem::take(&mut is_first) {
                count(frame);
            }
            rest = behind;
        }
        let done = read.len() - rest.len();
        read.drain(..done);
    }
}

/// The first frame, and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(number(bytes, 0)?).ok()?;
    let rest = &bytes[4..];
    (rest.len() >= length).then(|| rest.split_at(length))
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

/// Whether this request belongs to a lock, and not to keeping the session.
fn is_command(frame: &[u8]) -> bool {
    const EXISTS: i32 = 3;
    const PING: i32 = 11;
    const CHECK: i32 = 13;
    const MULTI: i32 = 14;
    const EPHEMERALS: i32 = 103;
    match number(frame, 4) {
        None | Some(PING | EPHEMERALS) => false,
        // `exists` of the root: sent only to get an answer.
        Some(EXISTS) if number(frame, 8) == Some(1) => false,
        // Part of a renewal: it checks one node and changes nothing.
        Some(MULTI) if number(frame, 8) == Some(CHECK) => {
            let path = number(frame, 17).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
            number(frame, 8 + 9 + 4 + path + 4) != Some(-1)
        }
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn pings_and_renewals_are_no_commands() {
        assert!(!is_command(&request(&[-2, 11])));
        assert!(!is_command(&request(&[5, 103])));
        assert!(!is_command(&[request(&[5, 3, 1]), b"/\0".to_vec()].concat()));
        assert!(is_command(&request(&[5, 12])));
        let check = |next: i32| {
            let mut multi = request(&[5, 14, 13]);
            multi.extend([0, 255, 255, 255, 255]);
            multi.extend(request(&[4]));
            multi.extend(b"/tid");
            multi.extend(request(&[-1, next]));
            multi
        };
        assert!(!is_command(&check(-1)));
        assert!(is_command(&check(2)));
    }

    #[test]
    fn frames_are_told_apart() {
        let bytes = [request(&[4, 7]), request(&[8, 1])].concat();
        let (frame, rest) = split(&bytes).unwrap();
        assert_eq!((number(frame, 0), rest.len()), (Some(7), 8));
        assert!(split(rest).is_none(), "half of the frame is still missing");
    }
}
