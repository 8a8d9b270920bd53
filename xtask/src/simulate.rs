//! `cargo xtask simulate`: clients' whole lives in one thread, under a turned clock, by a seed.
//!
//! The program of the crate `simulation` is compiled with `--cfg tidelock_simulation` into a separate target folder, as
//! loom's scenarios are, because other RUSTFLAGS would rebuild everything else each time. `tokio_unstable` is for the seed
//! of tokio's own choices.

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::call::{Call, Show};
use crate::cargo;
use crate::trouble::Result;
use crate::workspace::Workspace;

const HELP: &str = "\
Simulates clients' whole lives in one thread, under a turned clock. Each seed is a world of 2 to 6 clients: who does what
when, and what goes wrong between them and their store. It is played to its end and judged. The simulation ends at the
first broken promise, makes its world smaller, and saves the history that shows it.

Usage: cargo xtask simulate [--stores WHICH] [--seed N] [--for TIME | --worlds N] [--threads N] [--steps] [--twice]
       cargo xtask simulate --world FILE [--steps]

  --stores WHICH  memory (the default), or the Redis backend on servers of the simulation's own: redis,
                redis-sentinels, redis-cluster
  --seed N      that world alone; with --for or --worlds, the first of many; default: a fresh one, which is shown
  --for TIME    how long: 90s, 20m, 8h; default: 1m
  --worlds N    how many, however long they take
  --threads N   how many worlds are played at once; default: 1
  --steps       shows the plan and everything that happens
  --twice       plays each world twice, and compares the histories
  --world FILE  a world that was saved with a broken history, or written by hand";

/// What is compiled, and how.
const SELECTION: [&str; 5] =
    ["--release", "--package", "tidelock-simulation", "--config", "profile.release.debug=0"];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let mut call = Vec::new();
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Long(name @ ("steps" | "twice")) => call.push(format!("--{name}").into()),
            Long("for") => {
                call.extend(["--for".into(), seconds(&flags.value()?.string()?)?.to_string().into()]);
            }
            Long(name @ ("seed" | "stores" | "worlds" | "threads" | "world")) => {
                call.push(format!("--{name}").into());
                call.push(flags.value()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let simulation = build(&Workspace::load()?)?;
    let went_well = Call::new(simulation.program).args(call).interactive()?;
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program that simulates.
pub(crate) struct Simulation {
    pub(crate) program: PathBuf,
    /// Whether clippy, or the compiler, had something to say about what only the simulation compiles.
    pub(crate) has_warnings: bool,
}

/// Builds it by clippy, which compiles as rustc does: for its lints alone everything would be read a second time.
pub(crate) fn build(workspace: &Workspace) -> Result<Simulation> {
    let target = workspace.target.join("simulation");
    let call = cargo::call(&workspace.root)
        .without_env("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg tidelock_simulation --cfg tokio_unstable")
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CARGO_TARGET_DIR", &target);
    let built = call.arg("build").args(SELECTION).show(Show::Stderr).run()?;
    if !built.success() {
        return Err("the simulation does not build; see cargo's errors above".into());
    }
    let program = target.join("release/simulate").with_extension(std::env::consts::EXE_EXTENSION);
    Ok(Simulation { program, has_warnings: has_warnings(&built.text) })
}

/// Cargo says it again for what it has built before.
fn has_warnings(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("warning:"))
}

/// A time as in `90s`, `20m`, `8h`, in seconds.
fn seconds(text: &str) -> Result<u64> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("`{text}` is no time; write 90s, 20m or 8h").into()),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no time; write 90s, 20m or 8h"))?;
    Ok(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("90s").unwrap(), 90);
        assert_eq!(seconds("20m").unwrap(), 1_200);
        assert!(seconds("90").is_err() && seconds("").is_err() && seconds("xs").is_err());
    }

    #[test]
    fn a_warning_among_cargos_lines_is_seen() {
        assert!(has_warnings("   Compiling a v0.1.0\nwarning: unused import: `b`\n --> c.rs:1:5\n"));
        assert!(!has_warnings("   Compiling warning: v0.1.0\n    Finished `release` profile\n"));
    }
}
