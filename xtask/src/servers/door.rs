//! A door: where the other members of an etcd reach one member. It leads each connection to the cable between the two.
//!
//! etcd's members find each other by the addresses that they advertise, and a member has one address for all others. So
//! the door reads who is calling: each of their connections begins with a request that names the caller's own address.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use super::cable;
use super::group::Group;
use crate::trouble::{Result, While};

const LIMIT: Duration = Duration::from_secs(10);
/// More than the head of any request of theirs.
const LONGEST: usize = 16 * 1024;
/// The head line with the caller's address.
const CALLER: &str = "x-peerurls:";

/// Starts a door at the first port, to a member at the second. Each way is CALLER:CABLE, the caller's own door and the
/// cable for its connections.
pub(super) fn start(group: &mut Group, role: &str, (at, to): (u16, u16), ways: &[&str]) -> Result<()> {
    let program = std::env::current_exe().when(|| "find this program".to_owned())?;
    let mut command = Command::new(program);
    command.current_dir(group.folder(role)?).args(["servers", "door", &format!("{at}:{to}")]).args(ways);
    group.spawn(role, at, &command)?;
    group.wait(role, LIMIT, || cable::serves(at))
}

/// Leads connections until the process is ended.
pub(super) fn run(words: &[&str]) -> Result<ExitCode> {
    let ports = |word: &&str| -> Result<(u16, u16)> {
        let ports = word.split_once(':').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        ports.ok_or_else(|| format!("`{word}` is not PORT:PORT").into())
    };
    let all = words.iter().map(ports).collect::<Result<Vec<_>>>()?;
    let Some(((at, to), ways)) = all.split_first() else { return Err("a door needs its ports".into()) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *at)).when(|| format!("listen on port {at}"))?;
    for near in listener.incoming().flatten() {
        let (to, ways) = (*to, ways.to_vec());
        thread::spawn(move || lead(near, to, &ways));
    }
    Ok(ExitCode::SUCCESS)
}

fn lead(mut near: TcpStream, to: u16, ways: &[(u16, u16)]) -> io::Result<()> {
    let mut head = Vec::new();
    while !is_whole(&head) && head.len() < LONGEST {
        let mut part = [0; 4096];
        match near.read(&mut part)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let caller = caller(&head);
    let way = ways.iter().find(|(door, _)| Some(*door) == caller);
    let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, way.map_or(to, |(_, cable)| *cable)))?;
    far.set_nodelay(true)?;
    far.write_all(&head)?;
    cable::join(near, far)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n")
}

/// The port that the caller advertises. None: it does not say, because it only asks for something harmless.
fn caller(head: &[u8]) -> Option<u16> {
    let head = String::from_utf8_lossy(head).to_lowercase();
    let urls = head.lines().find_map(|line| line.strip_prefix(CALLER))?;
    urls.trim().split(',').next()?.rsplit_once(':')?.1.trim_end_matches('/').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_read_from_the_head() {
        let head =
            b"GET /raft/stream/message/1 HTTP/1.1\r\nHost: h\r\nX-PeerURLs: http://127.0.0.1:7001\r\n\r\n";
        assert_eq!(caller(head), Some(7001));
        assert!(is_whole(head) && !is_whole(&head[..20]));
        assert_eq!(caller(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1:7001\r\n\r\n"), None);
    }
}
