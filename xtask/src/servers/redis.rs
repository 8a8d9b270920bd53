//! Redis alone, with sentinels, and as a cluster. Nothing is persisted: a trial that wants persistence tells its
//! server.

use std::process::Command;
use std::time::Duration;

use super::group::Group;
use super::wire;
use crate::call::Call;
use crate::place;
use crate::setup::packages::need;
use crate::trouble::Result;

/// The sentinels' name for the master.
const MASTER: &str = "tidelock";
const LIMIT: Duration = Duration::from_secs(15);
/// Shortens the sentinels' intervals. By default, a master that has come back becomes a replica after eight seconds,
/// and is queried every ten; and a sentinel that a busy disk has blocked for two seconds does nothing for thirty.
/// Before Redis 7 these intervals are fixed: the sentinels then agree too, but later.
const HURRY: &str =
    "SENTINEL DEBUG info-period 300 ping-period 200 ask-period 200 publish-period 300 tilt-period 1000";
/// With default intervals, sentinels announce themselves every two seconds; the nodes of a cluster gossip every second.
const AGREEMENT: Duration = Duration::from_secs(60);

pub(super) fn needs() -> Result<()> {
    need("redis-server", "redis")?;
    need("redis-cli", "redis").map(drop)
}

pub(super) fn serves(_role: &str, port: u16) -> bool {
    says(port, "PING", &["+PONG"])
}

pub(super) fn single(group: &mut Group) -> Result<String> {
    let [port] = group.ports()?;
    start(group, "server", port, &[])?;
    group.wait("Redis", LIMIT, || serves("server", port))?;
    Ok(format!("redis://127.0.0.1:{port}"))
}

/// A master, two replicas in sync with it, and three sentinels that know all the others.
pub(super) fn sentinel(group: &mut Group) -> Result<String> {
    let [master, replica_1, replica_2, a, b, c] = group.ports()?;
    let of_master = [&*format!("replicaof 127.0.0.1 {master}")];
    start(group, "master", master, &[])?;
    group.wait("the master", LIMIT, || serves("master", master))?;
    start(group, "replica-1", replica_1, &of_master)?;
    start(group, "replica-2", replica_2, &of_master)?;
    group.wait("replication", LIMIT, || [replica_1, replica_2].into_iter().all(in_step))?;
    for (role, port) in [("sentinel-1", a), ("sentinel-2", b), ("sentinel-3", c)] {
        start_sentinel(group, role, port, master)?;
    }
    group.wait("the sentinels", LIMIT, || [a, b, c].into_iter().all(|port| serves("sentinel", port)))?;
    let _ = [a, b, c].map(|port| says(port, HURRY, &["+OK"])); // older servers refuse, and take longer
    group.wait("agreement among the sentinels", AGREEMENT, || [a, b, c].into_iter().all(knows_everyone))?;
    Ok(format!("redis-sentinel://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}/0#{MASTER}"))
}

/// Three masters that share the slots, with a replica each.
pub(super) fn cluster(group: &mut Group) -> Result<String> {
    let ports: [u16; 6] = group.ports()?;
    // By default a node refuses all its slots while any slot of the cluster has no master.
    let options = ["cluster-enabled yes", "cluster-node-timeout 2000", "cluster-require-full-coverage no"];
    for (i, port) in ports.iter().enumerate() {
        start(group, &format!("node-{}", i + 1), *port, &options)?;
    }
    group.wait("the cluster's nodes", LIMIT, || ports.iter().all(|port| serves("node", *port)))?;
    let nodes = ports.map(|port| format!("127.0.0.1:{port}"));
    let create = Call::new(need("redis-cli", "redis")?).args(["--cluster", "create"]).args(&nodes);
    let created = create.args(["--cluster-replicas", "1", "--cluster-yes"]).limit(AGREEMENT).run()?;
    if !created.success() {
        return Err(format!("redis-cli could not join the nodes:\n{}", created.tail(8)).into());
    }
    group.wait("the cluster", AGREEMENT, || {
        let agreed =
            ports.iter().all(|port| says(*port, "CLUSTER INFO", &["cluster_state:ok", "slots_ok:16384"]));
        agreed && ports.iter().filter(|port| in_step(**port)).count() == 3
    })?;
    Ok(format!("redis-cluster://{}", nodes.join(",")))
}

fn start(group: &mut Group, role: &str, port: u16, more: &[&str]) -> Result<()> {
    let lines = ["save \"\"", "appendonly no", "repl-diskless-sync-delay 0"];
    run(group, role, port, &[&lines, more].concat().join("\n"), None)
}

fn start_sentinel(group: &mut Group, role: &str, port: u16, master: u16) -> Result<()> {
    let lines = [
        format!("sentinel monitor {MASTER} 127.0.0.1 {master} 2"),
        // A sentinel asks once a second: with a limit of one second, a master that is back at once may count as down.
        format!("sentinel down-after-milliseconds {MASTER} 2000"),
        format!("sentinel failover-timeout {MASTER} 1500"),
        format!("sentinel parallel-syncs {MASTER} 2"),
    ];
    run(group, role, port, &lines.join("\n"), Some("--sentinel"))
}

/// Each server has its own configuration file, as in production: changes by `CONFIG REWRITE` or a sentinel survive a
/// restart.
fn run(group: &mut Group, role: &str, port: u16, config: &str, flag: Option<&str>) -> Result<()> {
    let folder = group.folder(role)?;
    let file = folder.join("redis.conf");
    place::write(&file, &format!("port {port}\nbind 127.0.0.1\n{config}\n"))?;
    let mut command = Command::new(need("redis-server", "redis")?);
    command.arg(&file).args(flag).current_dir(&folder);
    group.equip_clock(role, &mut command)?;
    group.spawn(role, port, &command)
}

fn in_step(port: u16) -> bool {
    says(port, "INFO replication", &["role:slave", "master_link_status:up"])
}

fn knows_everyone(port: u16) -> bool {
    let others = ["num-slaves\r\n$1\r\n2", "num-other-sentinels\r\n$1\r\n2"];
    says(port, &format!("SENTINEL MASTER {MASTER}"), &others)
        && says(port, &format!("SENTINEL CKQUORUM {MASTER}"), &["+OK 3 usable"])
}

/// Whether the reply to a command contains all of these.
fn says(port: u16, command: &str, wanted: &[&str]) -> bool {
    let answer = wire::ask_once(port, &format!("{command}\r\n")).unwrap_or_default();
    wanted.iter().all(|wanted| answer.contains(wanted))
}
