//! A client's whole life in one thread, under a turned clock, by a seed.
//!
//! `cargo xtask simulate` builds and runs this program, with `--cfg tidelock_simulation`: core's module `simulation` has
//! what that changes. Each seed is a world: a plan (`plan.rs`), drawn from it (`draw.rs`), says which clients do what when,
//! and what goes wrong. It is played to its end (`world.rs`) and judged (`record.rs`). A plan that breaks a promise is made
//! smaller while it still does (`shrink.rs`).

#[cfg(tidelock_simulation)]
mod draw;
#[cfg(tidelock_simulation)]
mod machines;
#[cfg(tidelock_simulation)]
mod medium;
#[cfg(tidelock_simulation)]
mod network;
#[cfg(tidelock_simulation)]
mod plan;
#[cfg(tidelock_simulation)]
mod player;
#[cfg(tidelock_simulation)]
mod program;
#[cfg(tidelock_simulation)]
mod record;
#[cfg(tidelock_simulation)]
mod redis;
#[cfg(tidelock_simulation)]
mod shrink;
#[cfg(tidelock_simulation)]
mod time;
#[cfg(tidelock_simulation)]
mod world;

use std::process::ExitCode;

#[cfg(tidelock_simulation)]
fn main() -> ExitCode {
    program::main()
}

#[cfg(not(tidelock_simulation))]
fn main() -> ExitCode {
    eprintln!("run it by `cargo xtask simulate`, which builds it with a clock that can be turned");
    ExitCode::FAILURE
}
