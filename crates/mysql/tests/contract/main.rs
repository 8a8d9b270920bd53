//! The contract on MySQL and MariaDB: `cargo xtask conformance --backend mysql`, or on a server of yours
//! `cargo test -p tidelock-mysql --test contract -- --url mysql://root@127.0.0.1/scratch`.

#[cfg_attr(test, allow(dead_code, unused_imports))] // its unit tests run in tests/subject.rs
mod subject;

use std::process::ExitCode;

use tidelock_conformance::program::{self, Backend};
use tidelock_conformance::subjects::Remote;

fn main() -> ExitCode {
    program::main(&Backend::with_servers("mysql", |url| Ok(Remote::new(subject::MySql::at(url)?))))
}
