//! A master with two replicas, for one test at a time; a test can freeze the replicas.

use std::process::Command;

use redis::{Client, Connection, FromRedisValue};
use tokio::sync::{Mutex, MutexGuard};

use super::{command, until};

static ONE: Mutex<()> = Mutex::const_new(());

/// As long as this lives, no other test of this program has these servers.
pub(crate) struct Replicated {
    pub(crate) master: Connection,
    replicas: Vec<Connection>,
    _turn: MutexGuard<'static, ()>,
}

/// A process that is stopped for as long as this lives.
pub(crate) struct Frozen(u32);

/// Where the sentinels are.
pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_REDIS_SENTINEL_URL")
        .expect("TIDELOCK_REDIS_SENTINEL_URL has the sentinels; cargo xtask test sets it")
}

/// The first of them, as if it were a server.
pub(crate) fn url_of_sentinel() -> String {
    let url = url();
    let first = url.trim_start_matches("redis-sentinel://").split(',').next().unwrap();
    format!("redis://{first}")
}

fn sentinel() -> Connection {
    Client::open(url_of_sentinel()).unwrap().get_connection().unwrap()
}

impl Replicated {
    /// Once both replicas are in step.
    pub(crate) async fn new() -> Self {
        let turn = ONE.lock().await;
        let (host, port): (String, u16) = ask(&mut sentinel(), "SENTINEL GET-MASTER-ADDR-BY-NAME tidelock");
        let mut master = connect(&host, port);
        let replicas = until("two replicas are in step", async || {
            let (_, _, known): (String, u64, Vec<(String, u16, u64)>) = ask(&mut master, "ROLE");
            let replicas: Vec<_> = known.iter().map(|(host, port, _)| connect(host, *port)).collect();
            (replicas.len() == 2 && in_step(&mut master)).then_some(replicas)
        })
        .await;
        let _: redis::Value = ask(&mut master, "FLUSHALL");
        let _: redis::Value = ask(&mut master, "CONFIG RESETSTAT");
        Self { master, replicas, _turn: turn }
    }

    /// Stops so many of the two replicas.
    pub(crate) fn freeze(&mut self, count: usize) -> Vec<Frozen> {
        self.replicas[..count].iter_mut().map(|replica| Frozen::now(info(replica, "process_id"))).collect()
    }

    /// Where the servers are, the master first.
    pub(crate) fn addresses(&mut self) -> Vec<String> {
        let servers = [&mut self.master].into_iter().chain(&mut self.replicas);
        servers.map(|server| format!("127.0.0.1:{}", info(server, "tcp_port"))).collect()
    }

    /// How often the master got this command.
    pub(crate) fn calls(&mut self, of: &str) -> u64 {
        let stats: String = ask(&mut self.master, "INFO commandstats");
        let of = format!("cmdstat_{of}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(of.as_str())?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }
}

fn connect(host: &str, port: u16) -> Connection {
    Client::open((host, port)).unwrap().get_connection().unwrap()
}

fn ask<T: FromRedisValue>(server: &mut Connection, words: &str) -> T {
    command(words).query(server).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// Whether both replicas have all that the master has.
fn in_step(master: &mut Connection) -> bool {
    let () = ask(master, "SET in-step 1 PX 1000");
    ask::<u32>(master, "WAIT 2 1000") == 2
}

fn info(server: &mut Connection, field: &str) -> u32 {
    let info: String = ask(server, "INFO server");
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap().trim().parse().unwrap()
}

impl Frozen {
    /// The server of this connection.
    pub(crate) fn of(server: &mut Connection) -> Self {
        Self::now(info(server, "process_id"))
    }

    fn now(process: u32) -> Self {
        signal("STOP", process);
        Self(process)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("CONT", self.0);
    }
}

fn signal(which: &str, process: u32) {
    let status = Command::new("kill").args([&format!("-{which}"), &process.to_string()]).status().unwrap();
    assert!(status.success(), "no signal {which} for {process}");
}
