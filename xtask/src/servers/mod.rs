//! `cargo xtask servers`: the servers for tests of the backends, as plain processes on 127.0.0.1.
//!
//! A deployment is one or more processes with their data in one temporary folder. To start it: check whether it runs
//! already; if not, find free ports, start the processes, record each (pid and birth) in a state file before the next,
//! and wait for the condition that it serves. To stop it: ask every process that still is the recorded one to end, kill
//! it after a while, and remove the folder. A file lock keeps two callers apart. A program that needs a deployment for
//! a while borrows it (`loan.rs`); `act.rs` does what trials want done to its members meanwhile.

mod act;
mod cable;
mod certificates;
mod clock;
mod door;
mod etcd;
mod group;
mod life;
mod loan;
mod mariadb;
mod port;
mod preload;
mod process;
mod recipe;
mod redis;
mod state;
mod wire;
mod zookeeper;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use lexopt::Parser;
use lexopt::prelude::*;

use self::act::Act;
use self::group::Group;
use self::life::Life;
pub(crate) use self::loan::Loan;
use self::state::State;
use crate::place;
use crate::progress;
use crate::trouble::{Result, While};

const HELP: &str = "\
Starts, stops or shows the servers for tests of the backends. Without a name: all of them.

Usage: cargo xtask servers <start|stop|status> [NAME…]
       cargo xtask servers members NAME
       cargo xtask servers act NAME MEMBER <stop|kill|start|pause|resume>
       cargo xtask servers act NAME MEMBER clock MILLISECONDS

Names:
  redis               one server
  redis-sentinel      a master, two replicas and three sentinels
  redis-cluster       three masters with a replica each
  zookeeper           one server
  zookeeper-ensemble  three servers
  zookeeper-tls       one server with TLS
  mariadb             one server, with an empty database `tidelock`
  mariadb-tls         the same with TLS
  etcd                one member
  etcd-cluster        three members, with users
  etcd-tls            one member that wants a client's certificate
  etcd-spare          one member, for tests that change it for everyone: users, alarms

They listen on free ports of 127.0.0.1 and keep their data in the system's temporary folder until they are
stopped. Starting a running server prints its URL; stopping a stopped one is fine. `cargo xtask setup` installs
what they need.

`members` prints a line for each process: role, port, and pid (- if it is down). A role stays with its process,
even when a failover changes its part. A~B is the cable between A and B: while it is paused, nothing gets through.

`act` acts on one process, for the conformance suite, and returns when that is done:
  stop    asks it to end
  kill    ends it at once, like a power cut
  start   starts it again, with the same command line, port and data, and waits until it serves
  pause   suspends it; its connections stay open
  resume  continues it
  clock   sets its wall clock MILLISECONDS ahead of (+) or behind (-) the real time, at once; 0 corrects it.
          Redis and MariaDB on Linux only, with a small library that is built with cc";

/// How often to try starting a deployment when one of its processes dies during the start: another program may have
/// taken a port after we found it free and before the server bound it.
const TRIES: usize = 3;

/// One deployment: what it needs, how it starts, and how to check whether a process serves.
#[derive(Debug)]
struct Deployment {
    name: &'static str,
    /// Checks for the programs it needs; the error names the part of `setup` that installs them.
    needs: fn() -> Result<()>,
    /// Starts everything and waits until it serves; returns the URL.
    launch: fn(&mut Group) -> Result<String>,
    /// Whether the process in this role, at this port, serves.
    serves: fn(role: &str, port: u16) -> bool,
}

const DEPLOYMENTS: &[Deployment] = &[
    Deployment { name: "redis", needs: redis::needs, launch: redis::single, serves: redis::serves },
    Deployment {
        name: "redis-sentinel",
        needs: redis::needs,
        launch: redis::sentinel,
        serves: redis::serves,
    },
    Deployment { name: "redis-cluster", needs: redis::needs, launch: redis::cluster, serves: redis::serves },
    Deployment {
        name: "zookeeper",
        needs: zookeeper::needs,
        launch: zookeeper::single,
        serves: zookeeper::serves,
    },
    Deployment {
        name: "zookeeper-ensemble",
        needs: zookeeper::needs,
        launch: zookeeper::ensemble,
        serves: zookeeper::serves,
    },
    Deployment {
        name: "zookeeper-tls",
        needs: zookeeper::needs,
        launch: zookeeper::single_with_tls,
        serves: zookeeper::serves,
    },
    Deployment { name: "mariadb", needs: mariadb::needs, launch: mariadb::single, serves: mariadb::serves },
    Deployment {
        name: "mariadb-tls",
        needs: mariadb::needs,
        launch: mariadb::single_with_tls,
        serves: mariadb::serves,
    },
    Deployment { name: "etcd", needs: etcd::needs, launch: etcd::single, serves: etcd::serves },
    Deployment { name: "etcd-cluster", needs: etcd::needs, launch: etcd::cluster, serves: etcd::serves },
    Deployment { name: "etcd-tls", needs: etcd::needs, launch: etcd::single_with_tls, serves: etcd::serves },
    Deployment {
        name: "etcd-spare",
        needs: etcd::needs,
        launch: etcd::single_with_signed_tokens,
        serves: etcd::serves,
    },
];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let verb = match flags.next()? {
        Some(Value(verb)) => verb.string()?,
        Some(Short('h') | Long("help")) => return Ok(crate::help(HELP)),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("no verb given: start, stop or status? see `cargo xtask servers --help`".into()),
    };
    // Raw arguments, because the offset of a clock may begin with a minus.
    let words: Vec<String> = flags.raw_args()?.map(lexopt::ValueExt::string).collect::<Result<_, _>>()?;
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return Ok(crate::help(HELP));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (verb.as_str(), words.as_slice()) {
        ("start", names) => for_each(names, |home, deployment| start(home, deployment, Life::Long)),
        ("stop", names) => for_each(names, stop),
        ("status", names) => for_each(names, status),
        ("members", [name]) => members(&home()?, find(name)?).map(|()| ExitCode::SUCCESS),
        ("members", _) => Err("`members` needs one name: `cargo xtask servers members NAME`".into()),
        ("cable", words) => cable::run(words), // the process between two servers runs this
        ("door", words) => door::run(words),   // and this, where a member's peers reach it
        ("act", words) => Act::parse(words)?.run(&home()?).map(|()| ExitCode::SUCCESS),
        _ => Err(format!("there is no verb `{verb}`; `cargo xtask servers --help` lists them").into()),
    }
}

fn for_each(names: &[&str], act: fn(&Path, &Deployment) -> Result<()>) -> Result<ExitCode> {
    let chosen = choose(names)?;
    let home = home()?;
    let _alone = lock(&home)?;
    let mut fine = true;
    for deployment in chosen {
        if let Err(trouble) = act(&home, deployment) {
            eprintln!("xtask: {}: {trouble}", deployment.name);
            fine = false;
        }
    }
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The folder with the state of every deployment.
fn home() -> Result<PathBuf> {
    Ok(place::root()?.join(".tidelock/servers"))
}

fn choose(names: &[&str]) -> Result<Vec<&'static Deployment>> {
    if names.is_empty() {
        return Ok(DEPLOYMENTS.iter().collect());
    }
    names.iter().map(|name| find(name)).collect()
}

fn find(name: &str) -> Result<&'static Deployment> {
    let found = DEPLOYMENTS.iter().find(|deployment| deployment.name == name);
    found
        .ok_or_else(|| format!("there is no server `{name}`; `cargo xtask servers --help` lists them").into())
}

/// The state of a deployment, if it serves.
fn running(home: &Path, deployment: &Deployment) -> Result<Option<State>> {
    let state = State::load(home, deployment.name)?;
    Ok(state.filter(|state| deployment.health(state).is_ok()))
}

/// Held while this process starts or stops deployments. The system releases it however the process ends.
fn lock(home: &Path) -> Result<File> {
    let file = lock_file(&home.join("lock"))?;
    file.lock().when(|| format!("lock {}", home.display()))?;
    Ok(file)
}

/// Opens a file for locking.
fn lock_file(path: &Path) -> Result<File> {
    place::write(path, "")?;
    File::open(path).when(|| format!("open {}", path.display()))
}

fn start(home: &Path, deployment: &Deployment, life: Life) -> Result<()> {
    if let Some(state) = running(home, deployment)? {
        println!("{}: runs at {}", deployment.name, state.url);
        return Ok(());
    }
    end(home, deployment)?; // parts of it may be left: begin anew
    if !cfg!(unix) {
        return Err(
            "servers can be started on Linux and macOS only; use the URL of one that runs elsewhere".into()
        );
    }
    (deployment.needs)()?;
    let began = Instant::now();
    let url = deployment.launch(home, life)?;
    let took = began.elapsed().as_secs_f32();
    progress::say(&format!("{}: started at {url} ({took:.1} s)", deployment.name));
    Ok(())
}

fn stop(home: &Path, deployment: &Deployment) -> Result<()> {
    let ended = end(home, deployment)?;
    let result = if ended { "stopped" } else { "was not running" };
    progress::say(&format!("{}: {result}", deployment.name));
    Ok(())
}

/// Ends the remains of a deployment, and leaves nothing behind. Returns whether there was anything.
fn end(home: &Path, deployment: &Deployment) -> Result<bool> {
    let _alone = State::lock(home, deployment.name)?;
    let Some(state) = State::load(home, deployment.name)? else {
        return Ok(false);
    };
    process::end_all(&state)?;
    state.forget(home)?;
    Ok(true)
}

fn status(home: &Path, deployment: &Deployment) -> Result<()> {
    let Some(state) = State::load(home, deployment.name)? else {
        println!("{}: stopped", deployment.name);
        return Ok(());
    };
    match deployment.health(&state) {
        Ok(()) => println!("{}: runs at {}", deployment.name, state.url),
        Err(trouble) => println!("{}: broken: {trouble}", deployment.name),
    }
    for process in &state.processes {
        let alive = if process.is_alive() { "pid" } else { "ended, was pid" };
        println!("  {} on port {}: {alive} {}", process.role, process.port, process.pid);
    }
    println!("  data and logs: {}", state.folder.display());
    Ok(())
}

fn members(home: &Path, deployment: &Deployment) -> Result<()> {
    for process in known(home, deployment)?.processes {
        let pid = if process.is_alive() { process.pid.to_string() } else { "-".to_owned() };
        println!("{} {} {pid}", process.role, process.port);
    }
    Ok(())
}

/// The state of a deployment that was started.
fn known(home: &Path, deployment: &Deployment) -> Result<State> {
    let state = State::load(home, deployment.name)?;
    state.ok_or_else(|| {
        let name = deployment.name;
        format!("{name} was not started; start it with `cargo xtask servers start {name}`").into()
    })
}

impl Deployment {
    fn launch(&self, home: &Path, life: Life) -> Result<String> {
        for left in (0..TRIES).rev() {
            let mut group = Group::new(home, self.name, life)?;
            match (self.launch)(&mut group) {
                Ok(url) => return group.keep(url),
                Err(trouble) => {
                    let died = group.someone_died();
                    group.end()?;
                    if left == 0 || !died {
                        return Err(trouble);
                    }
                }
            }
        }
        Err("the start was never tried".into())
    }

    fn health(&self, state: &State) -> Result<()> {
        for process in &state.processes {
            if !process.is_alive() {
                return Err(format!("{} has ended", process.role).into());
            }
            if !(self.serves)(&process.role, process.port) {
                return Err(format!("{} does not answer on port {}", process.role, process.port).into());
            }
        }
        if state.url.is_empty() { Err("its start was never completed".into()) } else { Ok(()) }
    }
}
