//! etcd: one member, or three.
//!
//! `TIDELOCK_ETCD=/path/to/etcd` starts another version than that of the PATH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::certificates::{self, Certificates};
use super::group::Group;
use super::{cable, door, wire};
use crate::call::Call;
use crate::place;
use crate::progress;
use crate::setup::packages::need;
use crate::trouble::Result;

const LIMIT: Duration = Duration::from_secs(30);

/// Do not wait for the disk: three members on one disk are slower than a real cluster, and on a shared machine one flush
/// may take seconds. Written data are lost only if the whole machine dies.
const NO_DISK: &str = "--unsafe-no-fsync";

pub(super) fn needs() -> Result<()> {
    let program = program()?;
    progress::say(&format!("etcd {}: {}", version(&program).unwrap_or_default(), program.display()));
    Ok(())
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

/// One member that signs its tokens, for the times when it has users. A signed token says how often the users had been
/// changed, and is refused after the next change.
pub(super) fn single_with_signed_tokens(group: &mut Group) -> Result<String> {
    let [client, peer]: [u16; 2] = group.ports()?;
    let member = Member { name: "member-1".to_owned(), client, peer, door: peer };
    let secret = group.folder(&member.name)?.join("secret");
    place::write(&secret, "anything that nobody else knows\n")?;
    let mut command = command(group, &member, &[&member], "http")?;
    let how = format!("jwt,sign-method=HS256,priv-key={},ttl=10m", secret.display());
    command.args(["--auth-token", &how]);
    group.spawn(&member.name, client, &command)?;
    group.wait("etcd", LIMIT, || serves(&member.name, client))?;
    Ok(format!("etcd://127.0.0.1:{client}"))
}

/// One member with TLS, which lets in only clients with a certificate, and a plain port to check whether it serves.
pub(super) fn single_with_tls(group: &mut Group) -> Result<String> {
    let [client, peer, health]: [u16; 3] = group.ports()?;
    let member = Member { name: "member-1".to_owned(), client, peer, door: peer };
    let folder = group.folder(&member.name)?;
    let Certificates { identity, authority } = certificates::lay_out(&folder)?;
    let mut command = command(group, &member, &[&member], "https")?;
    command.arg("--cert-file").arg(&identity).arg("--key-file").arg(&identity);
    command.arg("--trusted-ca-file").arg(&authority).arg("--client-cert-auth");
    command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{health}")]);
    group.spawn(&member.name, health, &command)?;
    group.wait("etcd", LIMIT, || serves(&member.name, health))?;
    Ok(format!("etcds://127.0.0.1:{client}"))
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
    let url = start(group, &members)?;
    add_users(members[0].client)?;
    Ok(url.replace("etcd://", &format!("etcd://{USER}:{PASSWORD}@")) + "/app")
}

/// The cluster's user, whose role is the one of the guide: for keys under `app/`. `root` has the same password.
const USER: &str = "tidelock";
const PASSWORD: &str = "tidelock";
/// What begins with `app/`, as the server's JSON writes it.
const KEYS: &str = r#""key":"YXBwLw==","range_end":"YXBwMA==""#;

fn add_users(port: u16) -> Result<()> {
    for user in ["root", USER] {
        post(port, "auth/user/add", &format!(r#"{{"name":"{user}","password":"{PASSWORD}"}}"#))?;
        post(port, "auth/role/add", &format!(r#"{{"name":"{user}"}}"#))?;
        post(port, "auth/user/grant", &format!(r#"{{"user":"{user}","role":"{user}"}}"#))?;
    }
    let grant = format!(r#"{{"name":"{USER}","perm":{{"permType":"READWRITE",{KEYS}}}}}"#);
    post(port, "auth/role/grant", &grant)?;
    post(port, "auth/enable", "{}")
}

fn post(port: u16, path: &str, body: &str) -> Result<()> {
    let request = format!(
        "POST /v3/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    match wire::ask(port, &request) {
        Some(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        answer => Err(format!("etcd answers {path} with {}", answer.unwrap_or_default()).into()),
    }
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
    let everyone: Vec<&Member> = members.iter().collect();
    for member in members {
        let command = command(group, member, &everyone, "http")?;
        group.spawn(&member.name, member.client, &command)?;
    }
    group.wait("etcd", LIMIT, || members.iter().all(|member| serves("member", member.client)))?;
    let addresses: Vec<String> =
        members.iter().map(|member| format!("127.0.0.1:{}", member.client)).collect();
    Ok(format!("etcd://{}", addresses.join(",")))
}

/// How to start a member whose clients use that scheme.
fn command(group: &Group, member: &Member, everyone: &[&Member], scheme: &str) -> Result<Command> {
    let Member { name, client, peer, door } = member;
    let everyone: Vec<String> =
        everyone.iter().map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.door)).collect();
    let folder = group.folder(name)?;
    let mut command = Command::new(program()?);
    command.current_dir(&folder).args(["--name", name, "--data-dir"]).arg(folder.join("data"));
    let url = |scheme: &str, port: &u16| format!("{scheme}://127.0.0.1:{port}");
    command.args(["--listen-client-urls", &url(scheme, client), "--listen-peer-urls", &url("http", peer)]);
    command.args(["--initial-cluster", &everyone.join(","), "--initial-cluster-state", "new"]);
    command.arg(NO_DISK);
    command.args(["--bcrypt-cost", "4"]); // the suite logs in all the time
    command.args(["--metrics", "extensive"]); // from 3.6 on requests are not counted otherwise
    command.args(["--advertise-client-urls", &url(scheme, client)]);
    command.args(["--initial-advertise-peer-urls", &url("http", door)]);
    if cfg!(target_arch = "aarch64") {
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64"); // otherwise 3.4 refuses to run there
    }
    Ok(command)
}

/// The etcd to start: the one of the environment variable, or the one of the PATH.
fn program() -> Result<PathBuf> {
    match std::env::var_os("TIDELOCK_ETCD") {
        Some(program) => Ok(program.into()),
        None => need("etcd", "etcd"),
    }
}

/// What it says of itself: `3.4.23`.
fn version(program: &Path) -> Option<String> {
    let asked = Call::new(program).arg("--version").run().ok()?;
    let line = asked.stdout.lines().find_map(|line| line.strip_prefix("etcd Version: "))?;
    Some(line.trim().to_owned())
}
