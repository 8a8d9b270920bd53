//! All tests of all crates. They are built first, so that a build failure is told apart from a failed test. Tests that
//! need a server are left to the step `servers`.
//!
//! The model's exploration reports its number of states in lines `explored: <n> …`. Too few of them are a failure,
//! because a rule that was hardly explored was hardly tested.

use super::Job;
use crate::call::{Call, Show};
use crate::tally::{Tally, grouped};
use crate::trouble::Result;
use crate::{cargo, libtest};

/// The number of states that the exploration must exceed, in the normal run and with `--deep`.
const ENOUGH_STATES: [u64; 2] = [100_000, 1_000_000];

/// How many tests run at once for each core.
const THREADS_OF_A_CORE: usize = 4;

/// Tests that do the same as the step `conformance`: the suite on memory, and its proof.
const DONE_ELSEWHERE: [&str; 2] =
    ["memory_keeps_the_contract", "every_broken_backend_and_every_faulty_history_is_caught"];

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let build = tests(job).arg("--no-run").show(Show::Everything).run()?;
    if !build.success() {
        return Err("the tests do not build; see cargo's errors above".into());
    }
    // The output of passing tests is included, because the exploration's figures are in it.
    let run = tests(job)
        .args(["--no-fail-fast", "--", "--show-output"])
        .args(DONE_ELSEWHERE.iter().flat_map(|test| ["--skip", test]))
        .env("RUST_TEST_THREADS", threads().to_string())
        .show(Show::Some(matters))
        .limit(job.limit(900))
        .run()?;
    count_states(job.deep, explored(&run.text), tally);
    if !run.success() {
        println!("{}", libtest::without_successes(&run.text));
    }
    libtest::count(&run, tally)
}

fn tests(job: &Job) -> Call {
    job.as_deep(cargo::call(&job.workspace.root).args(["test", "--workspace", "--all-features"]))
}

/// How many tests run at once: most of them wait for a clock.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * THREADS_OF_A_CORE
}

fn count_states(deep: bool, states: u64, tally: &mut Tally) {
    let [normal, in_depth] = ENOUGH_STATES;
    let enough = if deep { in_depth } else { normal };
    tally.fact("explored states", states);
    if states > enough {
        tally.pass(1);
    } else {
        tally.fail(format!(
            "the model explored {} states, not more than {}",
            grouped(states),
            grouped(enough)
        ));
    }
}

/// Whether to show a line of a successful run.
fn matters(line: &str) -> bool {
    let line = line.trim_start();
    ["Running ", "Doc-tests ", "explored: "].iter().any(|start| line.starts_with(start))
        || libtest::is_result(line)
}

/// The sum of the figures in lines like `explored: 123456 states of a mutex line`.
fn explored(output: &str) -> u64 {
    let figures = output.lines().filter_map(|line| line.strip_prefix("explored: "));
    figures
        .filter_map(|rest| rest.split_whitespace().next()?.replace([',', '_'], "").parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explored_states_add_up() {
        assert_eq!(explored("x\nexplored: 120000 states\nexplored: 3_000 more\nnot explored: 7\n"), 123_000);
    }
}
