//! `conformance`: the contract on the memory backend, the suite's own proof, and the tables of guarantees.

use std::process::ExitCode;

use tidelock_conformance::program::{self, Backend};

fn main() -> ExitCode {
    program::main(&Backend::memory())
}
