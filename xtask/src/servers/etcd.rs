//! etcd: one member, or three.

use std::process::Command;
use std::time::Duration;

use super::group::Group;
use super::wire;
use crate::setup::packages::need;
use crate::trouble::Result;

const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn needs() -> Result<()> {
    need("etcd", "etcd").map(drop)
}

/// etcd calls itself healthy when it has a leader and can commit.
pub(super) fn serves(_role: &str, port: u16) -> bool {
    let request = format!("GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    wire::ask(port, &request).is_some_and(|answer| answer.contains("\"health\":\"true\""))
}

pub(super) fn single(group: &mut Group) -> Result<String> {
    members::<1, 2>(group)
}

pub(super) fn cluster(group: &mut Group) -> Result<String> {
    members::<3, 6>(group)
}

/// `N` members, with a port each for clients and for peers.
fn members<const N: usize, const PORTS: usize>(group: &mut Group) -> Result<String> {
    let ports: [u16; PORTS] = group.ports()?;
    let (clients, peers) = ports.split_at(N);
    let name = |i: usize| format!("member-{}", i + 1);
    let everyone: Vec<String> =
        peers.iter().enumerate().map(|(i, port)| format!("{}=http://127.0.0.1:{port}", name(i))).collect();
    for (i, (client, peer)) in clients.iter().zip(peers).enumerate() {
        let folder = group.folder(&name(i))?;
        let mut command = Command::new(need("etcd", "etcd")?);
        command.current_dir(&folder).args(["--name", &name(i), "--data-dir"]).arg(folder.join("data"));
        listen(&mut command, "client-urls", *client);
        listen(&mut command, "peer-urls", *peer);
        command.args(["--initial-cluster", &everyone.join(","), "--initial-cluster-state", "new"]);
        command.args(["--advertise-client-urls", &format!("http://127.0.0.1:{client}")]);
        command.args(["--initial-advertise-peer-urls", &format!("http://127.0.0.1:{peer}")]);
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64"); // otherwise 3.4 refuses to run there
        }
        group.spawn(&name(i), *client, &command)?;
    }
    group.wait("etcd", LIMIT, || clients.iter().all(|port| serves("member", *port)))?;
    let addresses: Vec<String> = clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    Ok(format!("etcd://{}", addresses.join(",")))
}

fn listen(command: &mut Command, whom: &str, port: u16) {
    command.args([format!("--listen-{whom}"), format!("http://127.0.0.1:{port}")]);
}
