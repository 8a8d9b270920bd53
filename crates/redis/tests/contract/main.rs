//! The contract on Redis: `cargo xtask conformance --backend redis`, or on a server of yours
//! `cargo test -p tidelock-redis --features cluster --test contract -- --url redis://127.0.0.1`.

#[cfg_attr(test, allow(dead_code, unused_imports))] // its unit tests run in tests/subject.rs
mod subject;

use std::process::ExitCode;

use tidelock_conformance::program::{self, Backend};
use tidelock_conformance::subjects::Remote;

fn main() -> ExitCode {
    program::main(&Backend::with_servers("redis", |url| Ok(Remote::new(subject::Redis::at(url)?))))
}
