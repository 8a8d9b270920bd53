//! `cargo xtask …`: all development tasks that are not plain cargo commands.
//!
//! Each subcommand is a module with its own `main`, which reads its flags and does its work. Every error comes back
//! here as one sentence, goes to stderr, and makes the exit code non-zero.

mod backend;
mod bench;
mod call;
mod cargo;
mod conformance;
mod crew;
mod faults;
mod guarantees;
mod libtest;
mod loom;
mod place;
mod playground;
mod progress;
mod score;
mod servers;
mod setup;
mod simulate;
mod storm;
mod tally;
mod test;
mod trouble;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::trouble::Result;

const HELP: &str = "\
Tidelock's tasks.

Usage: cargo xtask <COMMAND> [--help]

Commands:
  test         run all tests and checks
  loom         explore the interleavings of core and memory
  setup        install what is missing: toolchains, servers, tools
  servers      start, stop or show the servers for tests of the backends
  conformance  run the conformance suite on a backend
  storm        run random load and faults on a backend, for minutes or for a night
  simulate     play clients' whole lives in one thread, under a turned clock, by a seed
  bench        measure a backend against its store's bare commands, or the playground: --playground
  playground   build the playground and serve it, or write its files into a folder

Help for a command: cargo xtask <COMMAND> --help";

fn main() -> ExitCode {
    match dispatch(Parser::from_env()) {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("xtask: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut flags: Parser) -> Result<ExitCode> {
    let command = match flags.next()? {
        Some(Value(word)) => word.string()?,
        Some(Short('h') | Long("help")) => return Ok(help(HELP)),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("no command given; `cargo xtask --help` lists them".into()),
    };
    match command.as_str() {
        "test" => test::main(flags),
        "loom" => loom::main(flags),
        "setup" => setup::main(flags),
        "servers" => servers::main(flags),
        "conformance" => conformance::main(flags),
        "simulate" => simulate::main(flags),
        "storm" => storm::main(flags),
        "bench" => bench::main(flags),
        "playground" => playground::main(flags),
        "help" => Ok(help(HELP)),
        _ => Err(format!("there is no command `{command}`; `cargo xtask --help` lists them").into()),
    }
}

fn help(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}"); // who reads it may have seen enough
    ExitCode::SUCCESS
}
