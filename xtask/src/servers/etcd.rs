//! etcd: one member, or three.

use std::process::Command;
use std::time::Duration;

use super::group::Group;
use super::{cable, door, wire};
use crate::setup::packages::need;
use crate::trouble::Result;

const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn needs() -> Result<()> {
    need("etcd", "etcd").map(drop)
}

/// etcd calls itself healthy when it has a leader and can commit.
pub(super) fn serves(role: &str, port: u16) -> bool {
    if cable::is_one(role) {
        return cable::serves(port);
    }
    let request = format!("GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    wire::ask(port, &request).is_some_and(|answer| answer.contains("\"health\":\"true\""))
}

pub(super) fn single(group: &mut Group) -> Result<String> {
    let [client, peer]: [u16; 2] = group.ports()?;
    start(group, &[Member { name: "member-1".to_owned(), client, peer, door: peer }])
}

/// Three members, with a cable between each two, so that one can be cut off from the others.
pub(super) fn cluster(group: &mut Group) -> Result<String> {
    let [ports @ .., a, b, c, d, e, f]: [u16; 15] = group.ports()?;
    let cables = [a, b, c, d, e, f];
    let members: Vec<Member> = (1..)
        .zip(ports.chunks(3))
        .map(|(i, ports)| Member {
            name: format!("member-{i}"),
            client: ports[0],
            peer: ports[1],
            door: ports[2],
        })
        .collect();
    let pairs = (0..members.len()).flat_map(|other| (0..other).map(move |one| (one, other)));
    let mut ways: Vec<(usize, String)> = Vec::new();
    for ((one, other), ports) in pairs.zip(cables.chunks(2)) {
        let (near, far) = (&members[one], &members[other]);
        let role = format!("{}~{}", near.name, far.name);
        cable::start(group, &role, &[(ports[0], far.peer), (ports[1], near.peer)])?;
        ways.push((other, format!("{}:{}", near.door, ports[0])));
        ways.push((one, format!("{}:{}", far.door, ports[1])));
    }
    for (i, member) in members.iter().enumerate() {
        let ways: Vec<&str> = ways.iter().filter(|(to, _)| *to == i).map(|(_, way)| way.as_str()).collect();
        door::start(group, &format!("{}-door~", member.name), (member.door, member.peer), &ways)?;
    }
    start(group, &members)
}

/// One member: its port for clients, the one at which it listens to the others, and the one that it tells them.
#[derive(Debug)]
struct Member {
    name: String,
    client: u16,
    peer: u16,
    door: u16,
}

fn start(group: &mut Group, members: &[Member]) -> Result<String> {
    let everyone: Vec<String> =
        members.iter().map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.door)).collect();
    for Member { name, client, peer, door } in members {
        let folder = group.folder(name)?;
        let mut command = Command::new(need("etcd", "etcd")?);
        command.current_dir(&folder).args(["--name", name, "--data-dir"]).arg(folder.join("data"));
        listen(&mut command, "client-urls", *client);
        listen(&mut command, "peer-urls", *peer);
        command.args(["--initial-cluster", &everyone.join(","), "--initial-cluster-state", "new"]);
        command.args(["--metrics", "extensive"]); // from 3.6 on requests are not counted otherwise
        command.args(["--advertise-client-urls", &format!("http://127.0.0.1:{client}")]);
        command.args(["--initial-advertise-peer-urls", &format!("http://127.0.0.1:{door}")]);
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64"); // otherwise 3.4 refuses to run there
        }
        group.spawn(name, *client, &command)?;
    }
    group.wait("etcd", LIMIT, || members.iter().all(|member| serves("member", member.client)))?;
    let addresses: Vec<String> =
        members.iter().map(|member| format!("127.0.0.1:{}", member.client)).collect();
    Ok(format!("etcd://{}", addresses.join(",")))
}

fn listen(command: &mut Command, whom: &str, port: u16) {
    command.args([format!("--listen-{whom}"), format!("http://127.0.0.1:{port}")]);
}
