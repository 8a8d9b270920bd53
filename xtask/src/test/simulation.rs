//! Half a minute of simulated lives, the worlds that once broke a promise, and proof that the simulation finds faults.
//!
//! The worlds are the same in each run, so a run fails only for what was changed since the last one. Fresh ones are for
//! `cargo xtask simulate`.
//!
//! The list in core pairs each fault with the check that must find it. The program of the simulation has all of them, and
//! reads the one to switch on from its environment. The first line `broken: <check>: …` must name that check.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Job;
use crate::call::{Call, Show};
use crate::faults::{self, Fault};
use crate::tally::Tally;
use crate::trouble::Result;
use crate::{crew, place, simulate};

/// The seed of the first world of each run.
const FIRST: u64 = 1;
/// How many worlds are played: about half a minute of one core.
const WORLDS: u64 = 3_000;
const WORLDS_WHEN_DEEP: u64 = 300_000;
/// How many of them are played twice.
const TWICE: u64 = 300;
/// In how many worlds a fault must be found.
const ENOUGH: u64 = 4_000;
/// A program that takes longer than that is stuck.
const LIMIT: Duration = Duration::from_secs(900);
const LIMIT_WHEN_DEEP: Duration = Duration::from_secs(6 * 3600);

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let program = simulate::build(&job.workspace)?;
    for world in place::files_below(&job.workspace.package("tidelock-simulation")?.dir.join("found")) {
        let outcome = Call::new(&program).arg("--world").arg(&world).run()?;
        count(outcome.success(), &format!("the world {}", world.display()), &outcome.tail(30), tally);
    }
    let (worlds, limit) = if job.deep { (WORLDS_WHEN_DEEP, LIMIT_WHEN_DEEP) } else { (WORLDS, LIMIT) };
    play(&program, TWICE, &["--twice"], LIMIT, tally)?;
    play(&program, worlds, &[], limit, tally)?;
    let list = job.workspace.package("tidelock-core")?.dir.join("simulation-faults.txt");
    crew::run_all(
        &faults::load(&list)?,
        |fault| verdict(fault, &program),
        |fault, verdict| report(fault, verdict, tally),
    );
    Ok(())
}

fn play(program: &Path, worlds: u64, flags: &[&str], limit: Duration, tally: &mut Tally) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let call = simulated(program, worlds).args(["--threads", &threads]).args(flags);
    let outcome = call.limit(limit).show(Show::Everything).run()?;
    let minutes = outcome.stdout.lines().rev().find_map(client_minutes);
    tally.fact("simulated client-minutes", minutes.unwrap_or(0));
    count(outcome.success(), &format!("playing {worlds} worlds"), "", tally);
    Ok(())
}

fn simulated(program: &Path, worlds: u64) -> Call {
    Call::new(program).args(["--seed", &FIRST.to_string(), "--worlds", &worlds.to_string()])
}

/// The figure in a line like `seed 7: 12 worlds, 300 client-minutes in …`.
fn client_minutes(line: &str) -> Option<u64> {
    let (before, _) = line.split_once(" client-minutes")?;
    before.rsplit(' ').next()?.parse().ok()
}

fn count(went_well: bool, what: &str, text: &str, tally: &mut Tally) {
    if went_well {
        println!("ok {what}");
        tally.pass(1);
    } else {
        println!("{text}");
        tally.fail(format!("{what} breaks a promise"));
    }
}

/// In how many seconds the fault is found, by the check that is meant to.
fn verdict(fault: &Fault, program: &Path) -> Result<f32> {
    let began = Instant::now();
    let call = simulated(program, ENOUGH).arg("--as-it-is").env(faults::VARIABLE, &fault.name);
    let outcome = call.limit(LIMIT).run()?;
    if outcome.success() || outcome.timed_out() {
        return Err(format!("it is not found in {ENOUGH} worlds").into());
    }
    let found = outcome.text.lines().find_map(|line| line.strip_prefix("broken: ")?.split_once(':'));
    match found {
        Some((check, _)) if check == fault.catcher => Ok(began.elapsed().as_secs_f32()),
        Some((check, _)) => Err(format!("`{check}` found it, not `{}`", fault.catcher).into()),
        None => {
            Err(format!("it fails, but no line `broken: <check>` says why:\n{}", outcome.tail(20)).into())
        }
    }
}

fn report(fault: &Fault, verdict: Result<f32>, tally: &mut Tally) {
    match verdict {
        Ok(took) => {
            println!("found {:<40} by {:<10} in {took:.1} s", fault.name, fault.catcher);
            tally.pass(1);
            tally.fact("faults of core found by the simulation", 1);
        }
        Err(why) => {
            println!("NOT FOUND {}: {why}", fault.name);
            tally.fail(format!(
                "the simulation does not find the fault {}: {}",
                fault.name,
                why.first_line()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_a_run_is_read() {
        assert_eq!(client_minutes("seed 7: 12 worlds, 300 client-minutes in 4 s, 9 a minute"), Some(300));
        assert_eq!(client_minutes("ok seed 7"), None);
    }
}
