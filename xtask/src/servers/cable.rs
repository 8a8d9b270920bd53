//! A cable: a process that carries the connections between two servers of an ensemble, so that it can be paused like a
//! server.
//!
//! While it is paused nothing gets through, and no connection ends: this is what servers see when the network between
//! them fails. Servers may tell each other their addresses, and so bypass the configuration. So `cable.c`, loaded
//! before their own libraries, leads their connections through the cable. If it cannot be built there are no cables,
//! and no server can be cut off.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use super::group::Group;
use super::preload;
use crate::trouble::{Result, While};

const SOURCE: &str = include_str!("cable.c");
/// Tells the library where each connection goes.
const DETOURS: &str = "TIDELOCK_CABLES";
const LIMIT: Duration = Duration::from_secs(10);

/// Whether this role is a cable between two others.
pub(super) fn is_one(role: &str) -> bool {
    role.contains('~')
}

/// Whether the cable accepts connections.
pub(super) fn serves(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A server, and the ports at which the others connect to it.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) role: &'a str,
    pub(super) ports: [u16; 2],
    /// The new ports for its connections to others: (from, to).
    detours: Vec<(u16, u16)>,
}

impl<'a> Peer<'a> {
    pub(super) fn new(role: &'a str, ports: [u16; 2]) -> Self {
        Self { role, ports, detours: Vec::new() }
    }

    /// Leads the connections of a server that is about to start through its cables.
    pub(super) fn equip(&self, home: &Path, command: &mut Command) -> Result<()> {
        if !self.detours.is_empty() {
            let detours: Vec<String> = self.detours.iter().map(|(from, to)| format!("{from}:{to}")).collect();
            command.env("LD_PRELOAD", library(home)?).env(DETOURS, detours.join(" "));
        }
        Ok(())
    }
}

/// Starts a cable between each two servers, if cables can be built. Each cable takes four of the ports.
pub(super) fn lay(group: &mut Group, peers: &mut [Peer], ports: &[u16]) -> Result<()> {
    if library(group.home()).is_err() {
        return Ok(());
    }
    let pairs = (0..peers.len()).flat_map(|other| (0..other).map(move |one| (one, other)));
    for ((one, other), ports) in pairs.zip(ports.chunks_exact(4)) {
        let there = [(ports[0], peers[other].ports[0]), (ports[1], peers[other].ports[1])];
        let back = [(ports[2], peers[one].ports[0]), (ports[3], peers[one].ports[1])];
        start(group, &format!("{}~{}", peers[one].role, peers[other].role), &[there, back].concat())?;
        peers[one].detours.extend(there.map(|(cable, port)| (port, cable)));
        peers[other].detours.extend(back.map(|(cable, port)| (port, cable)));
    }
    Ok(())
}

fn library(home: &Path) -> Result<PathBuf> {
    preload::library(home, "cable", SOURCE)
}

/// Starts one cable, which carries each port to another one.
pub(super) fn start(group: &mut Group, role: &str, ports: &[(u16, u16)]) -> Result<()> {
    let program = std::env::current_exe().when(|| "find this program".to_owned())?;
    let mut command = Command::new(program);
    command.current_dir(group.folder(role)?).args(["servers", "cable"]);
    command.args(ports.iter().map(|(from, to)| format!("{from}:{to}")));
    let first = ports.first().map_or(0, |(from, _)| *from);
    group.spawn(role, first, &command)?;
    group.wait(role, LIMIT, || ports.iter().all(|(from, _)| serves(*from)))
}

/// Carries connections until the process is ended.
pub(super) fn run(words: &[&str]) -> Result<ExitCode> {
    let mut carrying = Vec::new();
    for word in words {
        let ports = word.split_once(':').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let (from, to): (u16, u16) = ports.ok_or_else(|| format!("`{word}` is not PORT:PORT"))?;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, from)).when(|| format!("listen on port {from}"))?;
        carrying.push(thread::spawn(move || {
            for near in listener.incoming().flatten() {
                thread::spawn(move || carry(near, to));
            }
        }));
    }
    for thread in carrying {
        let _ = thread.join(); // it never ends by itself
    }
    Ok(ExitCode::SUCCESS)
}

/// Carries both ways until one side hangs up. If there is no server, it hangs up at once.
fn carry(near: TcpStream, to: u16) -> io::Result<()> {
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    join(near, far)
}

/// Carries both ways between these two until one side hangs up.
pub(super) fn join(near: TcpStream, far: TcpStream) -> io::Result<()> {
    let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || pass(far_too, near_too));
    pass(near, far)
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    to.set_nodelay(true)?;
    let passed = io::copy(&mut from, &mut to);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)); // this ends the other direction too
    passed.map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_both_ends_end_together() {
        let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = far.local_addr().unwrap().port();
        let cable = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(cable.local_addr().unwrap()).unwrap();
        let carried = cable.accept().unwrap().0;
        thread::spawn(move || carry(carried, to));
        let mut server = far.accept().unwrap().0;
        near.write_all(b"question").unwrap();
        let mut read = [0; 8];
        server.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
        server.write_all(b"answer").unwrap();
        drop(server);
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"answer");
    }
}
