//! `cargo xtask servers`: the servers that backends are tested with, as plain processes on 127.0.0.1.
//!
//! A deployment is one or more processes with their data in one temporary folder. To start it: look whether it
//! runs already; else find free ports, start the processes, note each (pid and birth) in a state file before
//! the next, and wait for the condition that says it serves. To stop it: ask every process that is still the
//! one noted to end, insist after a while, remove the folder. A file lock keeps two callers apart.

mod etcd;
mod group;
mod mariadb;
mod port;
mod process;
mod redis;
mod state;
mod wire;
mod zookeeper;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use lexopt::Parser;
use lexopt::prelude::*;

use self::group::Group;
use self::state::State;
use crate::place;
use crate::trouble::{Result, While};

const HELP: &str = "\
Starts, stops or shows the servers that backends are tested with. Without a name: all of them.

Usage: cargo xtask servers <start|stop|status> [NAME…]

Names:
  redis               one server
  redis-sentinel      a master, two replicas and three sentinels
  redis-cluster       three masters with a replica each
  zookeeper           one server
  zookeeper-ensemble  three servers
  mariadb             one server, with an empty database `tidelock`
  etcd                one member
  etcd-cluster        three members

They listen on free ports of 127.0.0.1 and keep their data in the system's temporary folder until they are
stopped. Starting what runs prints where it is; stopping what is stopped is fine. `cargo xtask setup` installs
what they need.";

/// How often a deployment is tried when one of its processes dies while it starts: another program may have
/// taken a port between our finding it free and the server's binding it.
const TRIES: usize = 3;

/// One deployment: what it needs, how it starts, how one of its processes is asked whether it serves.
struct Deployment {
    name: &'static str,
    /// Programs, with the part of `setup` that brings them.
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
    Deployment { name: "mariadb", needs: mariadb::needs, launch: mariadb::single, serves: mariadb::serves },
    Deployment { name: "etcd", needs: etcd::needs, launch: etcd::single, serves: etcd::serves },
    Deployment { name: "etcd-cluster", needs: etcd::needs, launch: etcd::cluster, serves: etcd::serves },
];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let mut words: Vec<String> = Vec::new();
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some((verb, names)) = words.split_first() else {
        return Err("start, stop or status? `cargo xtask servers --help` shows how".into());
    };
    let act = match verb.as_str() {
        "start" => start,
        "stop" => stop,
        "status" => status,
        _ => {
            return Err(format!("servers cannot `{verb}`; they can start, stop and tell their status").into());
        }
    };
    let chosen = choose(names)?;
    let home = place::root()?.join(".tidelock/servers");
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

/// Does something while a deployment serves: starts it before, unless it runs, and stops it afterwards if it did not.
pub(crate) fn during<T>(name: &str, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let home = place::root()?.join(".tidelock/servers");
    let deployment = find(name)?;
    let ran_before = {
        let _alone = lock(&home)?;
        let ran_before = running(&home, deployment)?.is_some();
        start(&home, deployment)?;
        ran_before
    };
    let state = State::load(&home, name)?.ok_or_else(|| format!("{name} was stopped by somebody else"))?;
    let outcome = work(&state.url);
    if !ran_before {
        let _alone = lock(&home)?;
        stop(&home, deployment)?;
    }
    outcome
}

fn choose(names: &[String]) -> Result<Vec<&'static Deployment>> {
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

/// What is known of a deployment that serves.
fn running(home: &Path, deployment: &Deployment) -> Result<Option<State>> {
    let state = State::load(home, deployment.name)?;
    Ok(state.filter(|state| deployment.health(state).is_ok()))
}

/// Held while this process works on servers; the system lets go of it however we end.
fn lock(home: &Path) -> Result<File> {
    let path = home.join("lock");
    place::write(&path, "")?;
    let file = File::open(&path).when(|| format!("open {}", path.display()))?;
    file.lock().when(|| format!("lock {}", path.display()))?;
    Ok(file)
}

fn start(home: &Path, deployment: &Deployment) -> Result<()> {
    if let Some(state) = running(home, deployment)? {
        println!("{}: runs at {}", deployment.name, state.url);
        return Ok(());
    }
    if let Some(state) = State::load(home, deployment.name)? {
        process::end_all(&state)?; // half of it is left: begin anew
        state.forget(home)?;
    }
    if !cfg!(unix) {
        return Err(
            "servers are started on Linux and macOS only; give the URL of one that runs elsewhere".into()
        );
    }
    (deployment.needs)()?;
    let began = Instant::now();
    let url = deployment.launch(home)?;
    println!("{}: started at {url} ({:.1} s)", deployment.name, began.elapsed().as_secs_f32());
    Ok(())
}

fn stop(home: &Path, deployment: &Deployment) -> Result<()> {
    let Some(state) = State::load(home, deployment.name)? else {
        println!("{}: is stopped", deployment.name);
        return Ok(());
    };
    process::end_all(&state)?;
    state.forget(home)?;
    println!("{}: stopped", deployment.name);
    Ok(())
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

impl Deployment {
    fn launch(&self, home: &Path) -> Result<String> {
        for left in (0..TRIES).rev() {
            let mut group = Group::new(home, self.name)?;
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
        Err("it was never tried".into())
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
        if state.url.is_empty() { Err("it was never started to its end".into()) } else { Ok(()) }
    }
}
