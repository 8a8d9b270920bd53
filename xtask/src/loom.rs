//! `cargo xtask loom`: explores every interleaving of small scenarios in core and memory, up to a bound.
//!
//! The scenarios are unit tests in modules called `loom`, compiled with `--cfg tidelock_loom` into a separate target
//! folder, because other RUSTFLAGS would rebuild everything else each time. Each scenario runs in a process of its own,
//! so that one that hangs does not stop the others, and prints `loom: <scenario>: <n> iterations`. Then the scenario of
//! each fault in a crate's `loom-faults.txt` runs with that fault, and must fail.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::Parser;
use lexopt::prelude::*;

use crate::call::{Call, Outcome};
use crate::faults::{self, Fault};
use crate::tally::{Tally, grouped};
use crate::trouble::{Result, Trouble};
use crate::workspace::{Package, Workspace};
use crate::{cargo, crew, libtest};

const HELP: &str = "\
Explores the interleavings of core and memory with loom, then checks that it finds the seeded faults.

Usage: cargo xtask loom [--deep] [FILTER]

  --deep   one more preemption: takes minutes to hours instead of seconds
  FILTER   only scenarios (and their faults) whose names contain this";

const PACKAGES: [&str; 2] = ["tidelock-core", "tidelock-memory"];

/// Optimized where the exploring happens; the rest (loom includes a whole regex engine) should build fast.
const PROFILE: [&str; 6] = [
    "profile.test.debug=0",
    "profile.test.package.'*'.opt-level=0",
    "profile.test.package.loom.opt-level=3",
    "profile.test.package.generator.opt-level=3",
    "profile.test.package.tracing.opt-level=3",
    "profile.test.package.tracing-core.opt-level=3",
];

/// The options of one loom run.
pub(crate) struct Exploration<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) deep: bool,
    pub(crate) filter: &'a str,
}

struct Scenario<'a> {
    package: &'a Package,
    binary: &'a Path,
    test: String,
}

struct Mutant<'a> {
    package: &'a Package,
    fault: Fault,
}

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let mut deep = false;
    let mut filter = None;
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Long("deep") => deep = true,
            Value(word) if filter.is_none() => filter = Some(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let workspace = Workspace::load()?;
    let filter = filter.unwrap_or_default();
    let mut tally = Tally::default();
    Exploration { workspace: &workspace, deep, filter: &filter }.run(&mut tally)?;
    println!("{}", tally.summary());
    Ok(if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Exploration<'_> {
    pub(crate) fn run(&self, tally: &mut Tally) -> Result<()> {
        let packages =
            PACKAGES.iter().map(|name| self.workspace.package(name)).collect::<Result<Vec<_>>>()?;
        println!("building {} for loom", PACKAGES.join(" and "));
        let selection: Vec<&str> = PACKAGES.iter().flat_map(|name| ["--package", *name]).collect();
        let programs = cargo::build_unit_tests(self.cargo(), &selection, &packages)?;
        let mut scenarios = Vec::new();
        for (package, program) in packages.iter().zip(&programs) {
            scenarios.extend(self.scenarios(package, program)?);
        }
        if scenarios.is_empty() {
            let which =
                if self.filter.is_empty() { "" } else { &format!(" whose name contains `{}`", self.filter) };
            return Err(format!("there is no loom scenario{which}").into());
        }
        self.explore(&scenarios, tally);
        self.prove(&packages, &scenarios, tally)
    }

    /// The scenarios among a package's unit tests.
    fn scenarios<'a>(&self, package: &'a Package, binary: &'a Path) -> Result<Vec<Scenario<'a>>> {
        let list = Call::new(binary).args(["--list", "--format", "terse"]).run()?.required()?;
        let tests = libtest::listed(&list.stdout).into_iter();
        let ours =
            tests.filter(|test| test.split("::").any(|part| part == "loom") && test.contains(self.filter));
        Ok(ours.map(|test| Scenario { package, binary, test }).collect())
    }

    /// Runs all scenarios, as many at a time as there are cores.
    fn explore(&self, scenarios: &[Scenario<'_>], tally: &mut Tally) {
        let play = |scenario: &Scenario<'_>| {
            let began = Instant::now();
            (self.run_test(scenario, None), began.elapsed())
        };
        crew::run_all(scenarios, play, |scenario, (outcome, took)| judge(scenario, outcome, took, tally));
    }

    /// Each seeded fault must make its scenario fail.
    fn prove(&self, packages: &[&Package], scenarios: &[Scenario<'_>], tally: &mut Tally) -> Result<()> {
        let mut mutants = Vec::new();
        for package in packages {
            let list = package.dir.join("loom-faults.txt");
            if list.exists() {
                let faults = faults::load(&list)?.into_iter();
                let wanted = faults
                    .filter(|fault| fault.catcher.contains(self.filter) || self.names_test(fault, scenarios));
                mutants.extend(wanted.map(|fault| Mutant { package, fault }));
            }
        }
        crew::run_all(
            &mutants,
            |mutant| self.verdict(mutant, scenarios),
            |mutant, verdict| report(&mutant.fault, verdict, tally),
        );
        Ok(())
    }

    fn names_test(&self, fault: &Fault, scenarios: &[Scenario<'_>]) -> bool {
        !self.filter.is_empty() && scenarios.iter().any(|scenario| is_called(&scenario.test, &fault.catcher))
    }

    fn verdict(&self, mutant: &Mutant<'_>, scenarios: &[Scenario<'_>]) -> Result<()> {
        let catcher = &mutant.fault.catcher;
        let mut of_package = scenarios.iter().filter(|scenario| scenario.package.name == mutant.package.name);
        let meant = of_package.find(|scenario| is_called(&scenario.test, catcher));
        let meant = meant.ok_or_else(|| Trouble::from(format!("there is no scenario `{catcher}`")))?;
        let test = &meant.test;
        let outcome = self.run_test(meant, Some(&mutant.fault))?;
        if outcome.timed_out() {
            return Err(outcome.trouble());
        }
        // A panic during another panic aborts before the harness can count: that also counts as caught.
        let failed = libtest::counts(&outcome.text).failed == 1 || outcome.text.contains("panicked at");
        match (outcome.success(), failed) {
            (false, true) => Ok(()),
            _ => Err(format!("`{test}` does not catch it:\n{}", outcome.tail(20)).into()),
        }
    }

    fn run_test(&self, scenario: &Scenario<'_>, fault: Option<&Fault>) -> Result<Outcome> {
        let minutes = if self.deep { 120 } else { 5 };
        let call = Call::new(scenario.binary).dir(&scenario.package.dir);
        let call = call.args(["--exact", &scenario.test, "--nocapture", "--test-threads=1"]);
        let call = match fault {
            Some(fault) => call.env(faults::VARIABLE, &fault.name),
            None => call,
        };
        let call = call.env("LOOM_MAX_PREEMPTIONS", if self.deep { "3" } else { "2" });
        call.limit(Duration::from_secs(60 * minutes)).run()
    }

    fn cargo(&self) -> Call {
        let call = cargo::call(&self.workspace.root)
            .without_env("CARGO_ENCODED_RUSTFLAGS")
            .env("RUSTFLAGS", "--cfg tidelock_loom")
            .env("CARGO_TARGET_DIR", self.workspace.target.join("loom"));
        // In the normal run every scenario takes less than a second, so building fast matters more.
        let ours = if self.deep { "profile.test.opt-level=3" } else { "profile.test.opt-level=0" };
        PROFILE.iter().chain([&ours]).fold(call, |call, setting| call.args(["--config", setting]))
    }
}

/// Whether `name` is the full path or the last part of a test.
fn is_called(test: &str, name: &str) -> bool {
    test == name || test.rsplit("::").next() == Some(name)
}

fn judge(scenario: &Scenario<'_>, outcome: Result<Outcome>, took: Duration, tally: &mut Tally) {
    let name = format!("{}: {}", scenario.package.name, scenario.test);
    let outcome = match outcome {
        Ok(outcome) if outcome.success() => outcome,
        Ok(outcome) => {
            println!("FAILED {name}\n{}", outcome.tail(60));
            return tally.fail(format!("loom scenario {name}"));
        }
        Err(trouble) => return tally.fail(format!("loom scenario {name}: {trouble}")),
    };
    match iterations(&outcome.text) {
        0 => tally.fail(format!("loom scenario {name} does not report its number of iterations")),
        count => {
            println!("ok {name}: {} iterations, {:.1} s", grouped(count), took.as_secs_f32());
            tally.pass(1);
            tally.fact("loom iterations", count);
        }
    }
}

fn report(fault: &Fault, verdict: Result<()>, tally: &mut Tally) {
    match verdict {
        Ok(()) => {
            println!("caught {} by {}", fault.name, fault.catcher);
            tally.pass(1);
            tally.fact("mutants caught by loom", 1);
        }
        Err(why) => {
            println!("NOT CAUGHT {}: {why}", fault.name);
            tally.fail(format!("loom does not catch the fault {}", fault.name));
        }
    }
}

/// The sum over lines like `loom: a_release_meets_a_waker: 1234 iterations`, wherever the harness puts them.
fn iterations(output: &str) -> u64 {
    let lines = output.lines().filter_map(|line| line.split_once("loom: ").map(|(_, rest)| rest));
    lines.filter_map(|rest| rest.strip_suffix(" iterations")?.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_add_up_wherever_the_harness_breaks_the_line() {
        let output =
            "test line::loom::cancel ... loom: cancel: 120 iterations\nloom: other: 3 iterations\nok\n";
        assert_eq!(iterations(output), 123);
        assert_eq!(iterations("loom: no figure\n"), 0);
    }

    #[test]
    fn a_scenario_answers_to_both_its_names() {
        assert!(is_called("signal::loom::cancel_against_grant", "cancel_against_grant"));
        assert!(is_called("signal::loom::cancel", "signal::loom::cancel"));
        assert!(!is_called("signal::loom::cancel_against_grant", "cancel"));
    }
}
