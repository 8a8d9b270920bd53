//! `cargo xtask setup`: installs what is missing, and only that.
//!
//! A part is one thing that other commands need. The Rust parts come through rustup. The others are packages of Debian
//! and Ubuntu, installed by one run of `install.sh` as root or through sudo. Their services are not started, because
//! xtask starts its own servers on its own ports. If a part cannot be installed, the error says what to do by hand.

pub(crate) mod need;
pub(crate) mod packages;
pub(crate) mod rust;

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;

const HELP: &str = "\
Installs what is missing. Without a name: all parts. `cargo xtask test` installs by itself what it needs.

Usage: cargo xtask setup [PART…]

Parts:
  rust       targets for checks of other platforms, and the oldest promised Rust
  processes  ps and kill
  redis      redis-server and redis-cli (to step a server's clock, `servers` uses the C compiler that Rust links with)
  zookeeper  ZooKeeper and the Java it runs on
  mariadb    mariadbd and its client
  etcd       etcd
  protoc     the protobuf compiler, to build the etcd backend
  browser    chromium and its driver, to test the playground

Servers come from Debian's or Ubuntu's packages, as root or through sudo; their own services are not started.
On other systems this command prints what to install by hand.";

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let mut wanted: Vec<String> = Vec::new();
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Value(part) => wanted.push(known(part.string()?)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let mut troubles: Vec<Trouble> = Vec::new();
    if wants("rust") {
        troubles.extend(rust::install(&Workspace::load()?, &rust::PARTS).err());
    }
    let missing = packages::missing(wants);
    for part in packages::PARTS.iter().filter(|part| wants(part.name)) {
        if !missing.iter().any(|absent| absent.name == part.name) {
            println!("{}: already installed", part.name);
        }
    }
    troubles.extend(packages::install(&missing).err());
    for trouble in &troubles {
        eprintln!("xtask: {trouble}");
    }
    Ok(if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn known(part: String) -> Result<String> {
    if part == "rust" || packages::PARTS.iter().any(|known| known.name == part) {
        return Ok(part);
    }
    Err(format!("there is no part `{part}`; `cargo xtask setup --help` lists them").into())
}
