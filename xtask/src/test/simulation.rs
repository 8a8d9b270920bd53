//! Half a minute of simulated lives, the worlds that once broke a promise, and proof that the simulation finds faults.
//! Clippy, which builds it, must have nothing to say.
//!
//! The worlds are the same in each run, so a run fails only for what was changed since the last one. Fresh ones are for
//! `cargo xtask simulate`.
//!
//! A list pairs each fault with the check that must find it: core's list in the worlds of memory, the Redis backend's in
//! those of a Redis server, of sentinels and of a cluster. The program of the simulation has all of them, and reads the
//! one to switch on from its environment. The first line `broken: <check>: …` must name that check.

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
/// How many worlds are played of each kind: about half a minute of one core.
const WORLDS: [(&str, u64); 4] =
    [("memory", 3_000), ("redis", 500), ("redis-sentinels", 300), ("redis-cluster", 300)];
/// How many times as many are played when deep.
const WHEN_DEEP: u64 = 100;
/// One world of so many is played twice.
const TWICE: u64 = 10;
/// The faults of a package, and the worlds in which they must be found.
const LISTS: [(&str, &str, &str); 4] = [
    ("tidelock-core", "simulation-faults.txt", "memory"),
    ("tidelock-redis", "simulation-faults.txt", "redis"),
    ("tidelock-redis", "simulation-faults-sentinels.txt", "redis-sentinels"),
    ("tidelock-redis", "simulation-faults-cluster.txt", "redis-cluster"),
];
/// In how many worlds a fault must be found.
const ENOUGH: u64 = 4_000;
/// A program that takes longer than that is stuck.
const LIMIT: Duration = Duration::from_secs(900);
const LIMIT_WHEN_DEEP: Duration = Duration::from_secs(6 * 3600);

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let simulation = simulate::build(&job.workspace)?;
    match simulation.has_warnings {
        false => tally.pass(1),
        true => tally.fail("clippy warns about what only the simulation compiles"),
    }
    let program = simulation.program;
    for world in place::files_below(&job.workspace.package("tidelock-simulation")?.dir.join("found")) {
        let outcome = Call::new(&program).arg("--world").arg(&world).run()?;
        count(outcome.success(), &format!("the world {}", world.display()), &outcome.tail(30), tally);
    }
    let (times, limit) = if job.deep { (WHEN_DEEP, LIMIT_WHEN_DEEP) } else { (1, LIMIT) };
    for (stores, worlds) in WORLDS {
        play(&program, stores, worlds / TWICE, &["--twice"], LIMIT, tally)?;
        play(&program, stores, worlds * times, &[], limit, tally)?;
    }
    let mut faults = Vec::new();
    for (package, file, stores) in LISTS {
        let list = job.workspace.package(package)?.dir.join(file);
        faults.extend(faults::load(&list)?.into_iter().map(|fault| (fault, stores)));
    }
    crew::run_all(
        &faults,
        |(fault, stores)| verdict(fault, stores, &program),
        |(fault, _), verdict| report(fault, verdict, tally),
    );
    Ok(())
}

fn play(
    program: &Path,
    stores: &str,
    worlds: u64,
    flags: &[&str],
    limit: Duration,
    tally: &mut Tally,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let call = simulated(program, stores, worlds).args(["--threads", &threads]).args(flags);
    let outcome = call.limit(limit).show(Show::Everything).run()?;
    let minutes = outcome.stdout.lines().rev().find_map(client_minutes);
    tally.fact("simulated client-minutes", minutes.unwrap_or(0));
    count(outcome.success(), &format!("playing {worlds} worlds on {stores}"), "", tally);
    Ok(())
}

fn simulated(program: &Path, stores: &str, worlds: u64) -> Call {
    let (first, worlds) = (FIRST.to_string(), worlds.to_string());
    Call::new(program).args(["--stores", stores, "--seed", &first, "--worlds", &worlds])
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
fn verdict(fault: &Fault, stores: &str, program: &Path) -> Result<f32> {
    let began = Instant::now();
    let call = simulated(program, stores, ENOUGH).arg("--as-it-is").env(faults::VARIABLE, &fault.name);
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
            tally.fact("faults found by the simulation", 1);
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
