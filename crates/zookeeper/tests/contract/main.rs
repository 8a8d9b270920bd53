//! The contract on ZooKeeper: `cargo xtask conformance --backend zookeeper`, or on a server of yours
//! `cargo test -p tidelock-zookeeper --test contract -- --url zookeeper://127.0.0.1`.

#[cfg_attr(test, allow(dead_code, unused_imports))] // its unit tests run in tests/subject.rs
mod subject;

use std::process::ExitCode;

use tidelock_conformance::program::{self, Backend};
use tidelock_conformance::subjects::Remote;

fn main() -> ExitCode {
    program::main(&Backend::with_servers("zookeeper", |url| Ok(Remote::new(subject::ZooKeeper::at(url)?))))
}
