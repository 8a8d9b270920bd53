//! The contract on etcd: `cargo xtask conformance --backend etcd`, or on a server of yours
//! `cargo test -p tidelock-etcd --test contract -- --url etcd://127.0.0.1`.

#[cfg_attr(test, allow(dead_code, unused_imports))] // its unit tests run in tests/subject.rs
mod subject;

use std::process::ExitCode;

use tidelock_conformance::program::{self, Backend};
use tidelock_conformance::subjects::Remote;

fn main() -> ExitCode {
    program::main(&Backend::with_servers("etcd", |url| Ok(Remote::new(subject::Etcd::at(url)?))))
}
