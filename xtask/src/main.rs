//! `cargo xtask …`: everything a developer of Tidelock runs that is no plain cargo command.
//!
//! Each subcommand is a module with a `main` of its own that reads its flags and does its work. Trouble of any
//! kind comes back here as one sentence, goes to stderr, and becomes a non-zero exit.

mod absent;
mod assembly;
mod backend;
mod bench;
mod call;
mod cargo;
mod conformance;
mod faults;
mod guarantees;
mod libtest;
mod loom;
mod place;
mod score;
mod servers;
mod setup;
mod storm;
mod tally;
mod test;
mod trouble;
mod workspace;

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::trouble::Result;

const HELP: &str = "\
Tidelock's tasks.

Usage: cargo xtask <COMMAND> [--help]

Commands:
  test         everything, in the order in which failures are cheapest to find
  loom         explore the interleavings of core and memory
  setup        install what is missing: toolchains, servers, tools
  servers      start, stop or look at the servers that the backends are tested with
  conformance  run the conformance suite on a backend
  storm        everything at once, by chance, over a backend: for minutes or for nights
  bench        measure a backend beside its store's bare commands
  playground   build the playground

Each command explains itself: cargo xtask <COMMAND> --help";

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
        None => return Err("which command? `cargo xtask --help` lists them".into()),
    };
    match command.as_str() {
        "test" => test::main(flags),
        "loom" => loom::main(flags),
        "setup" => setup::main(flags),
        "servers" => servers::main(flags),
        "conformance" => conformance::main(flags),
        "storm" => storm::main(flags),
        "bench" => bench::main(flags),
        "playground" => absent::main(&command, flags),
        "help" => Ok(help(HELP)),
        _ => Err(format!("there is no command `{command}`; `cargo xtask --help` lists them").into()),
    }
}

fn help(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}
