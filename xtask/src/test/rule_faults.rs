//! Proves that the exploration of the rule can fail, and for the right reason.
//!
//! A list pairs each fault with the check that must catch it. The program of the unit tests of its crate, the one that
//! the step `tests` has built, explores with one fault at a time, which it reads from its environment. The run must
//! fail, and the first line `broken: <check>: …` must name that check. A run that reaches its time limit has caught
//! nothing.

use std::path::Path;
use std::time::Duration;

use super::Job;
use crate::call::{Call, Outcome};
use crate::faults::{self, Fault};
use crate::tally::Tally;
use crate::trouble::Result;
use crate::{cargo, crew, libtest};

/// What is explored: the package, its list of faults, and the tests that explore it.
const EXPLORED: [(&str, &str, &str); 2] = [
    ("tidelock-model", "faults.txt", "explore"),
    ("tidelock-core", "own-line-faults.txt", "own_line::explored"),
];
const LIMIT: Duration = Duration::from_secs(300);

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let packages = EXPLORED.map(|(package, ..)| job.workspace.package(package));
    let packages = packages.into_iter().collect::<Result<Vec<_>>>()?;
    let selection = ["--workspace", "--all-features"]; // as in the step `tests`
    let programs = cargo::build_unit_tests(cargo::call(&job.workspace.root), &selection, &packages)?;
    for ((package, program), (_, list, tests)) in packages.iter().zip(&programs).zip(EXPLORED) {
        let file = package.dir.join(list);
        let faults = faults::load(&file)?;
        if faults.is_empty() {
            return Err(format!("{} names no fault", file.display()).into());
        }
        let tests = explorations(program, tests)?;
        crew::run_all(
            &faults,
            |fault| verdict(fault, program, &tests),
            |fault, verdict| report(fault, verdict, tally),
        );
    }
    Ok(())
}

/// Plays the tests one after the other, because two that both catch a fault would race for the first line; and none after
/// the one that catches it, which has that line.
fn verdict(fault: &Fault, program: &Path, tests: &[String]) -> Result<()> {
    for test in tests {
        let call = Call::new(program).args(["--exact", test]).env(faults::VARIABLE, &fault.name);
        let outcome = call.limit(LIMIT).run()?;
        if outcome.timed_out() {
            return Err(outcome.trouble());
        }
        if !outcome.success() {
            return judge(fault, &outcome);
        }
    }
    Err("the exploration passes in spite of the fault".into())
}

fn judge(fault: &Fault, outcome: &Outcome) -> Result<()> {
    match broken(&outcome.text) {
        Some(check) if check == fault.catcher => Ok(()),
        Some(check) => Err(format!("`{check}` caught it, not `{}`", fault.catcher).into()),
        None => {
            Err(format!("it fails, but no line `broken: <check>` says why:\n{}", outcome.tail(20)).into())
        }
    }
}

/// The tests of a program whose names contain this.
fn explorations(program: &Path, part: &str) -> Result<Vec<String>> {
    let list = Call::new(program).args([part, "--list", "--format", "terse"]).run()?.required()?;
    let tests = libtest::listed(&list.stdout);
    if tests.is_empty() {
        return Err(format!("{} has no test `{part}`", program.display()).into());
    }
    Ok(tests)
}

/// The check named by the first line `broken: <check>: …`.
fn broken(output: &str) -> Option<&str> {
    let rest = output.lines().find_map(|line| line.strip_prefix("broken: "))?;
    Some(rest.split(':').next().unwrap_or(rest).trim())
}

fn report(fault: &Fault, verdict: Result<()>, tally: &mut Tally) {
    match verdict {
        Ok(()) => {
            println!("caught {} by {}", fault.name, fault.catcher);
            tally.pass(1);
            tally.fact("mutants of the rule caught", 1);
        }
        Err(why) => {
            println!("NOT CAUGHT {}: {why}", fault.name);
            tally.fail(format!("the fault {} of the rule is not caught by {}", fault.name, fault.catcher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broken_check_counts() {
        let output = "thread 'x' panicked at y.rs:1:\nbroken: exclusion: 2 held of 1\nbroken: order: later\n";
        assert_eq!(broken(output), Some("exclusion"));
        assert_eq!(broken("all is well: broken: no\n"), None);
    }
}
