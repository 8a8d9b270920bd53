//! ZooKeeper alone, and as an ensemble of three.
//!
//! Java is started directly, because Debian's start script must log under /var/log.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cable::Peer;
use super::certificates::{self, Certificates};
use super::group::Group;
use super::life::Life;
use super::{cable, wire};
use crate::place;
use crate::setup::packages::{find, need};
use crate::trouble::{Result, Trouble};

const LIMIT: Duration = Duration::from_secs(60);

/// A short tick allows short sessions. Containers are checked often, so that a trial sees them go. When all servers
/// stall together for some seconds, no election should start, because that takes long.
const CONFIG: &str = "\
tickTime=100
initLimit=20
syncLimit=100
minSessionTimeout=1000
maxSessionTimeout=86400000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
";
const CONTAINERS: [&str; 2] =
    ["-Dznode.container.checkIntervalMs=1000", "-Dznode.container.maxPerMinute=1000000"];

/// Do not wait for the disk: three servers on one disk are slower than a real ensemble, and on a shared machine one
/// flush may take seconds. Written data are lost only if the whole machine dies.
const NO_DISK: &str = "-Dzookeeper.forceSync=no";

/// In some minutes, Java's optimising compiler uses more of the processors than its code saves: a third of all.
const QUICKLY_COMPILED: &str = "-XX:TieredStopAtLevel=1";

/// Only this connection factory supports TLS.
const WITH_TLS: &str = "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n";

const LOGGING: &str = "\
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
";

pub(super) fn needs() -> Result<()> {
    need("java", "zookeeper")?;
    classes().map(drop)
}

pub(super) fn serves(role: &str, port: u16) -> bool {
    if cable::is_one(role) { cable::serves(port) } else { mode(port).is_some() }
}

pub(super) fn single(group: &mut Group) -> Result<String> {
    let [port] = group.ports()?;
    start(group, &Peer::new("server", [0, 0]), port, 1, "")?;
    group.wait("ZooKeeper", LIMIT, || mode(port).as_deref() == Some("standalone"))?;
    Ok(format!("zookeeper://127.0.0.1:{port}"))
}

/// One server with TLS for clients, and a plain port to check whether it serves.
pub(super) fn single_with_tls(group: &mut Group) -> Result<String> {
    let [port, secure] = group.ports()?;
    let folder = group.folder("server")?;
    let Certificates { identity, authority } = certificates::lay_out(&folder)?;
    let certificates = format!(
        "{WITH_TLS}secureClientPort={secure}\nsecureClientPortAddress=127.0.0.1\n\
         ssl.keyStore.type=PEM\nssl.keyStore.location={}\n\
         ssl.trustStore.type=PEM\nssl.trustStore.location={}\n",
        identity.display(),
        authority.display()
    );
    start(group, &Peer::new("server", [0, 0]), port, 1, &certificates)?;
    group.wait("ZooKeeper", LIMIT, || mode(port).as_deref() == Some("standalone"))?;
    Ok(format!("zookeeper+tls://127.0.0.1:{secure}"))
}

/// Three servers, with a cable between each two, so that one can be cut off from the others.
pub(super) fn ensemble(group: &mut Group) -> Result<String> {
    let [a, b, c, ports @ ..]: [u16; 21] = group.ports()?;
    let (own, between) = ports.split_at(6);
    let (clients, roles) = ([a, b, c], ["server-1", "server-2", "server-3"]);
    let mut peers: Vec<Peer> =
        roles.iter().zip(own.chunks(2)).map(|(role, ports)| Peer::new(role, [ports[0], ports[1]])).collect();
    let member =
        |(id, peer): (usize, &Peer)| format!("server.{id}=127.0.0.1:{}:{}\n", peer.ports[0], peer.ports[1]);
    let members: String = (1..).zip(&peers).map(member).collect();
    cable::lay(group, &mut peers, between)?;
    for ((id, port), peer) in (1..).zip(clients).zip(&peers) {
        start(group, peer, port, id, &members)?;
    }
    group.wait("the ensemble", LIMIT, || {
        let modes = clients.map(|port| mode(port).unwrap_or_default());
        modes.iter().filter(|mode| *mode == "leader").count() == 1
            && modes.iter().filter(|mode| *mode == "follower").count() == 2
    })?;
    Ok(format!("zookeeper://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}"))
}

fn start(group: &mut Group, peer: &Peer, port: u16, id: u16, more: &str) -> Result<()> {
    let folder = group.folder(peer.role)?;
    let config = folder.join("zoo.cfg");
    let place = format!("dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n", folder.display());
    place::write(&config, &format!("{CONFIG}{place}{more}"))?;
    place::write(&folder.join("myid"), &format!("{id}\n"))?;
    place::write(&folder.join("log4j.properties"), LOGGING)?;
    let mut command = Command::new(need("java", "zookeeper")?);
    command.current_dir(&folder).args(["-Xmx256m", "-XX:+UseSerialGC", NO_DISK]).args(CONTAINERS);
    if group.life == Life::Short {
        command.arg(QUICKLY_COMPILED);
    }
    command.args(["-Dzookeeper.jmx.log4j.disable=true", "-cp"]).arg(class_path(&folder)?);
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(&config);
    peer.equip(group.home(), &mut command)?;
    group.spawn(peer.role, port, &command)
}

/// A server's mode: `standalone`, `leader` or `follower`. None: it does not serve.
fn mode(port: u16) -> Option<String> {
    let answer = wire::ask(port, "srvr")?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(|mode| mode.trim().to_owned())
}

/// The classes: Debian's jar, or the folders beside an unpacked release's script.
fn classes() -> Result<Vec<PathBuf>> {
    // The first jar names all others that it needs, except those for TLS.
    let debian = ["zookeeper.jar", "netty-codec.jar"].map(|jar| Path::new("/usr/share/java").join(jar));
    if debian[0].is_file() {
        return Ok(debian.into());
    }
    let script = find("zkServer.sh").or_else(|| find("zkServer"));
    let script = script.and_then(|script| script.canonicalize().ok());
    let home = script.as_deref().and_then(Path::parent).and_then(Path::parent);
    let home = home.ok_or_else(|| {
        Trouble::from("ZooKeeper is missing; install it with `cargo xtask setup zookeeper`")
    })?;
    Ok(["lib/*", "libexec/lib/*", "*"].iter().map(|part| home.join(part)).collect())
}

fn class_path(folder: &Path) -> Result<OsString> {
    let parts = std::iter::once(folder.to_owned()).chain(classes()?);
    std::env::join_paths(parts)
        .map_err(|error| format!("ZooKeeper's class path cannot be written: {error}").into())
}
