//! `cargo xtask test`: everything, in the order in which failures are cheapest to find.
//!
//! A step counts its units in the tally and goes on after a failure; it returns an error when it could not do
//! its work, which counts as one failure. Only what does not build ends the run early: nothing after it could
//! say more. The last line is the score alone.
//!
//! The servers' step mostly waits. In a whole run, what needs nothing but the processor runs behind it meanwhile.

mod behind;
mod conformance;
mod contract;
mod examples;
mod fence;
mod format;
mod invariants;
mod lints;
mod package;
mod pages;
mod platforms;
mod rule_faults;
mod rustdoc;
mod servers;
mod table;
mod unit;

use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use behind::Behind;
use lexopt::Parser;
use lexopt::prelude::*;
use package::Packages;

use crate::call::Call;
use crate::loom::Exploration;
use crate::setup;
use crate::tally::{self, Tally};
use crate::trouble::Result;
use crate::workspace::Workspace;

const HELP: &str = "\
Tests everything, in the order in which failures are cheapest to find. The last line is the score.

Usage: cargo xtask test [--deep] [--only STEP]… [--list]

  --deep       explore far more states and interleavings: for nights, not for commits
  --only STEP  this step alone; may be given several times
  --list       show the steps";

/// What every step is given.
struct Job {
    workspace: Workspace,
    deep: bool,
    /// What the conformance suite has reported in this run.
    reports: RefCell<Vec<PathBuf>>,
    /// The libraries' packages, once a step has needed them.
    packages: OnceCell<Packages>,
}

impl Job {
    /// How long something may run that has so many seconds in a normal run.
    fn limit(&self, seconds: u64) -> Duration {
        Duration::from_secs(if self.deep { 6 * 3600 } else { seconds })
    }

    fn packages(&self) -> Result<&Packages> {
        if self.packages.get().is_none() {
            let _ = self.packages.set(Packages::of(&self.workspace)?);
        }
        self.packages.get().ok_or_else(|| "the libraries are not packaged".into())
    }

    /// Tests run by this call explore as far as the job does.
    fn as_deep(&self, tests: Call) -> Call {
        if self.deep { tests.env("TIDELOCK_DEEP", "1") } else { tests }
    }
}

struct Step {
    name: &'static str,
    about: &'static str,
    run: Run,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Usual,
    /// An error here means that nothing builds: the later steps would only repeat it.
    Gate,
    /// Needs nothing but the processor, and may run behind others.
    Busy,
    /// Mostly waits.
    Waits,
}

type Run = fn(&Job, &mut Tally) -> Result<()>;

const fn step(name: &'static str, about: &'static str, run: Run) -> Step {
    Step { name, about, run, part: Part::Usual }
}

const fn busy(name: &'static str, about: &'static str, run: Run) -> Step {
    Step { name, about, run, part: Part::Busy }
}

const STEPS: &[Step] = &[
    step("format", "cargo fmt has nothing to change", format::run),
    step("invariants", "what docs/ARCHITECTURE.md promises and a text can show", invariants::run),
    step("lints", "clippy over all targets and features, warnings are errors", lints::run),
    Step { part: Part::Gate, ..step("tests", "unit, integration and doc tests", unit::run) },
    step("conformance", "the contract on memory, and what is broken on purpose is caught", conformance::run),
    step("examples", "every example runs and ends by itself", examples::run),
    step(
        "package",
        "cargo can package the libraries together, and each compiles from its package with the oldest Rust they promise",
        package::run,
    ),
    step("platforms", "the libraries compile for the web, macOS and Windows", platforms::systems),
    busy("rustdoc", "the documentation builds without a warning", rustdoc::run),
    busy(
        "rule-faults",
        "each seeded fault of the rule is caught by the check meant for it",
        rule_faults::run,
    ),
    busy("loom", "interleavings of core and memory, and the faults they must find", loom),
    busy(
        "pages",
        "every code block of README.md and docs/guide builds upon the packages and runs",
        pages::run,
    ),
    Step {
        part: Part::Waits,
        ..step(
            "servers",
            "on servers that are started for it: the backends' own tests, and the contract",
            servers::run,
        )
    },
    step("table", "README.md's table of guarantees is what these runs found", table::run),
];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let mut deep = false;
    let mut only: Vec<String> = Vec::new();
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Long("list") => return Ok(crate::help(&list())),
            Long("deep") => deep = true,
            Long("only") => only.push(known(flags.value()?.string()?)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let job =
        Job { workspace: Workspace::load()?, deep, reports: RefCell::default(), packages: OnceCell::new() };
    if let Err(trouble) = setup::rust::install(&job.workspace) {
        println!("{trouble}"); // the step that needs it fails; the others need not
    }
    let mut tally = Tally::default();
    let began = Instant::now();
    if only.is_empty() && Behind::CAN_BE {
        run_whole(&job, &mut tally);
    } else {
        let wanted = |step: &&Step| only.is_empty() || only.iter().any(|name| name == step.name);
        run_steps(&job, STEPS.iter().filter(wanted), &mut tally);
    }
    println!("\n{} ({:.0} s)\n{}", tally::SUMMARY, began.elapsed().as_secs_f32(), tally.summary());
    Ok(if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is busy runs behind what waits.
fn run_whole(job: &Job, tally: &mut Tally) {
    let first_wait = STEPS.iter().position(|step| step.part == Part::Waits).unwrap_or(STEPS.len());
    let (before, after) = STEPS.split_at(first_wait);
    if !run_steps(job, before.iter().filter(|step| step.part != Part::Busy), tally) {
        return;
    }
    let busy = STEPS.iter().filter(|step| step.part == Part::Busy).map(|step| step.name);
    let behind = Behind::start(job, busy);
    run_steps(job, after.iter().filter(|step| step.part != Part::Busy), tally);
    let ended = behind.and_then(|behind| behind.end(tally));
    note("behind", &ended, tally);
}

/// False: nothing more can be tested.
fn run_steps<'a>(job: &Job, steps: impl Iterator<Item = &'a Step>, tally: &mut Tally) -> bool {
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let began = Instant::now();
        let failed_before = tally.failed();
        let result = (step.run)(job, tally);
        note(step.name, &result, tally);
        let verdict = if tally.failed() == failed_before { "passed" } else { "FAILED" };
        println!("-- {} {verdict} in {:.1} s", step.name, began.elapsed().as_secs_f32());
        if step.part == Part::Gate && result.is_err() {
            println!("the remaining steps are left out: what does not build cannot be tested");
            return false;
        }
    }
    true
}

fn note(step: &str, result: &Result<()>, tally: &mut Tally) {
    if let Err(trouble) = result {
        println!("{trouble}");
        let first_line = trouble.to_string().lines().next().unwrap_or_default().to_owned();
        tally.fail(format!("{step}: {first_line}"));
    }
}

fn loom(job: &Job, tally: &mut Tally) -> Result<()> {
    Exploration { workspace: &job.workspace, deep: job.deep, filter: "" }.run(tally)
}

fn list() -> String {
    let lines: Vec<String> = STEPS.iter().map(|step| format!("{:<12} {}", step.name, step.about)).collect();
    lines.join("\n")
}

fn known(name: String) -> Result<String> {
    if STEPS.iter().any(|step| step.name == name) {
        return Ok(name);
    }
    Err(format!("there is no step `{name}`; `cargo xtask test --list` shows them").into())
}
