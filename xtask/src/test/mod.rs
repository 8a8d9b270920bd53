//! `cargo xtask test`: all tests and checks.
//!
//! A step counts its units in the tally, and continues after a failure. If it cannot do its work it returns an error,
//! which counts as one failure. What the chosen steps need is installed before the first of them, or the run ends there,
//! with the line to type. Only a failed build ends the run early, because no later step could say more. Steps that only
//! compute run beside those that mostly wait: a run is as long as the processors are busy. The last line is the score
//! alone.

mod circles;
mod conformance;
mod contract;
mod deployments;
mod examples;
mod features;
mod fence;
mod format;
mod imports;
mod invariants;
mod lints;
mod meanwhile;
mod package;
mod pages;
mod platforms;
mod playground;
mod rule_faults;
mod rustdoc;
mod servers;
mod simulation;
mod storm;
mod table;
mod unit;

use std::cell::OnceCell;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use lexopt::Parser;
use lexopt::prelude::*;
use meanwhile::Meanwhile;
use package::Packages;

use crate::call::Call;
use crate::cargo::Artifact;
use crate::conformance::Suite;
use crate::loom::Exploration;
use crate::progress;
use crate::setup::need::{self, Need};
use crate::setup::rust::{self, RustPart};
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Workspace;

const HELP: &str = "\
Runs all tests and checks. The last line is the score.

Usage: cargo xtask test [--deep] [--only STEP]… [--list]

  --deep       explore far more states and interleavings: takes a night
  --only STEP  only this step; may be given several times
  --list       list the steps";

/// The input of every step.
struct Job {
    workspace: Workspace,
    deep: bool,
    /// The conformance suite, built when a step first needs it.
    suite: OnceCell<Suite>,
    /// The test programs of all packages, found when a step first needs them.
    test_programs: OnceCell<Vec<Artifact>>,
    /// When it began: older reports of the suite are another run's.
    began: SystemTime,
    /// The libraries' packages, made when a step first needs them.
    packages: OnceCell<Packages>,
}

impl Job {
    /// The time limit for something that may take this many seconds in a normal run.
    fn limit(&self, seconds: u64) -> Duration {
        Duration::from_secs(if self.deep { 6 * 3600 } else { seconds })
    }

    fn suite(&self) -> Result<&Suite> {
        if self.suite.get().is_none() {
            let _ = self.suite.set(Suite::among_all(&self.workspace)?);
        }
        self.suite.get().ok_or_else(|| "the suite is not built".into())
    }

    fn test_programs(&self) -> Result<&[Artifact]> {
        if self.test_programs.get().is_none() {
            let _ = self.test_programs.set(servers::programs(&self.workspace)?);
        }
        self.test_programs.get().map(Vec::as_slice).ok_or_else(|| "the tests are not built".into())
    }

    fn packages(&self) -> Result<&Packages> {
        if self.packages.get().is_none() {
            let _ = self.packages.set(Packages::of(&self.workspace)?);
        }
        self.packages.get().ok_or_else(|| "the libraries are not packaged".into())
    }

    /// Makes a run of the contract as large as the job is.
    fn in_full(&self, contract: Call) -> Call {
        in_full(contract, self.deep)
    }

    /// Makes the tests of this call explore as far as the job does.
    fn as_deep(&self, tests: Call) -> Call {
        explored(tests, self.deep)
    }
}

/// What a step does with the processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Uses,
    /// It mostly waits: for leases to end, for servers and for disks.
    Waits,
    /// It compiles or explores: no other step needs the result, and no clock outside of it judges it. It runs beside
    /// steps that wait.
    Computes,
}

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Job, &mut Tally) -> Result<()>,
    /// What must be installed for it, beside the toolchain that builds xtask.
    needs: &'static [Need],
    /// Whether an error means that nothing builds: later steps would only repeat it.
    is_gate: bool,
    load: Load,
}

const fn step(name: &'static str, about: &'static str, run: fn(&Job, &mut Tally) -> Result<()>) -> Step {
    Step { name, about, run, needs: &[], is_gate: false, load: Load::Uses }
}

impl Step {
    const fn with(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    const fn that(self, load: Load) -> Self {
        Self { load, ..self }
    }
}

const STEPS: &[Step] = &[
    step("format", "cargo fmt has nothing to change", format::run)
        .with(&[Need::Rust(RustPart::Component("rustfmt"))]),
    step("invariants", "promises of docs/ARCHITECTURE.md that the source text can show", invariants::run),
    Step { is_gate: true, ..step("tests", "unit, integration and doc tests", unit::run) }
        .with(&[Need::Processes, Need::Protoc]),
    step("storm", "half a minute of random load and faults on each deployment", storm::run)
        .with(&[Need::Processes, Need::Servers, Need::Protoc])
        .that(Load::Waits),
    step("deployments", "the contract on every deployment, on servers started for it", deployments::run)
        .with(&[Need::Processes, Need::Servers, Need::Protoc])
        .that(Load::Waits),
    // They wait, too, but their bounds are not extended, and nothing plays them again, when processors are short.
    step("servers", "the backends' own tests, on servers started for them", servers::run)
        .with(&[Need::Processes, Need::Servers, Need::Protoc]),
    // First what is quick to fail, and what has a target folder of its own.
    step(
        "conformance",
        "the contract on memory under a turned clock, and proof that the suite catches broken backends",
        conformance::run,
    )
    .with(&[Need::Processes, Need::Protoc])
    .that(Load::Computes),
    step(
        "rule-faults",
        "each seeded fault of the rule is caught by the check meant for it",
        rule_faults::run,
    )
    .that(Load::Computes),
    step("loom", "interleavings of core and memory, and the seeded faults they must catch", loom)
        .that(Load::Computes),
    step(
        "simulation",
        "half a minute of clients' lives under a turned clock, and the faults that it must find",
        simulation::run,
    )
    .with(&[Need::Rust(RustPart::Component("clippy"))])
    .that(Load::Computes),
    step("lints", "clippy over all targets and features, with warnings as errors", lints::run)
        .with(&[Need::Rust(RustPart::Component("clippy")), Need::Protoc])
        .that(Load::Computes),
    step("rustdoc", "the documentation builds without a warning", rustdoc::run)
        .with(&[Need::Protoc])
        .that(Load::Computes),
    step(
        "package",
        "cargo can package the libraries together, and they compile from their packages with the oldest Rust they promise",
        package::run,
    )
    .with(&[Need::Rust(RustPart::Oldest), Need::Protoc])
    .that(Load::Computes),
    step(
        "pages",
        "every code block of README.md and docs/guide builds with the packages and runs",
        pages::run,
    )
    .with(&[Need::Protoc])
    .that(Load::Computes),
    step("features", "each library builds alone, from its package, without a warning: with each feature, and without", features::run)
        .with(&[Need::Rust(RustPart::Component("clippy")), Need::Protoc])
        .that(Load::Computes),
    step(
        "platforms",
        "the model compiles for the web, and the libraries that depend on the system for macOS and Windows",
        platforms::systems,
    )
        .with(&[
            Need::Rust(RustPart::Target(rust::WEB)),
            Need::Rust(RustPart::Target(rust::OTHER_SYSTEMS[0])),
            Need::Rust(RustPart::Target(rust::OTHER_SYSTEMS[1])),
            Need::Protoc,
        ])
        .that(Load::Computes),
    step("table", "the tables in README.md and docs/guarantees.md match these runs", table::run),
    step("examples", "every example runs and ends by itself", examples::run).with(&[Need::Processes, Need::Servers, Need::Protoc]),
    step("playground", "the playground in a real browser: every lesson, links, keys, accessibility, sizes", playground::run)
        .with(&[Need::Rust(RustPart::Target(rust::WEB)), Need::Processes, Need::Browser]),
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
    let mut tally = Tally::default();
    if let Err(trouble) =
        run(deep, |name| only.is_empty() || only.iter().any(|wanted| wanted == name), &mut tally)
    {
        tally.fail(trouble.to_string());
    }
    println!("{}", tally.summary());
    Ok(if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets up what the chosen steps need, and runs them. An error means that nothing was run.
fn run(deep: bool, wanted: impl Fn(&str) -> bool, tally: &mut Tally) -> Result<()> {
    let began = Instant::now();
    let workspace = Workspace::load()?;
    let chosen: Vec<&Step> = STEPS.iter().filter(|step| wanted(step.name)).collect();
    let needs: Vec<_> = chosen.iter().map(|step| (step.name, step.needs)).collect();
    need::prepare(&workspace, &needs)?;
    let job = Job {
        workspace,
        deep,
        suite: OnceCell::new(),
        test_programs: OnceCell::new(),
        began: SystemTime::now(),
        packages: OnceCell::new(),
    };
    let times = run_steps(&job, &chosen, tally);
    println!("\n== summary ({:.0} s)", began.elapsed().as_secs_f32());
    for (step, took) in times {
        println!("{step:<12} {:>6.1} s", took.as_secs_f32());
    }
    Ok(())
}

/// Runs these steps, and returns how long each took. Those that only compute begin with the first that waits, and end
/// before the next that uses the processors.
fn run_steps(job: &Job, steps: &[&Step], tally: &mut Tally) -> Vec<(String, Duration)> {
    let is_idle = steps.iter().any(|step| step.load == Load::Waits);
    let is_beside = |step: &&Step| is_idle && step.load == Load::Computes;
    let (mut beside, in_turn): (Vec<&Step>, Vec<&Step>) = steps.iter().copied().partition(is_beside);
    let mut meanwhile: Option<Meanwhile> = None;
    let mut times = Vec::new();
    for (number, step) in (1..).zip(&in_turn) {
        if step.load == Load::Waits && !beside.is_empty() {
            // What the steps that wait use is built now: later they would wait for cargo's lock. They tell the errors.
            let _ = job.suite();
            let _ = job.test_programs();
            match Meanwhile::begin(job, &std::mem::take(&mut beside)) {
                Ok(begun) => meanwhile = Some(begun),
                Err(trouble) => tally.fail(trouble.to_string()),
            }
        } else if step.load != Load::Waits
            && let Some(meanwhile) = meanwhile.take()
        {
            times.extend(meanwhile.end(tally));
        }
        progress::begin(Some(format!("{number}/{} {}", in_turn.len(), step.name)));
        let began = Instant::now();
        let result = run_step(job, step, tally);
        times.push((step.name.to_owned(), began.elapsed()));
        if step.is_gate && result.is_err() {
            println!("skipping the remaining steps: the tests do not build");
            break;
        }
    }
    times.extend(meanwhile.into_iter().flat_map(|meanwhile| meanwhile.end(tally)));
    progress::begin(None);
    times
}

fn run_step(job: &Job, step: &Step, tally: &mut Tally) -> Result<()> {
    println!("\n== {}: {}", step.name, step.about);
    let began = Instant::now();
    let failed_before = tally.failed();
    let result = (step.run)(job, tally);
    if let Err(trouble) = &result {
        println!("{trouble}");
        tally.fail(format!("{}: {}", step.name, trouble.first_line()));
    }
    let verdict = if tally.failed() == failed_before { "passed" } else { "FAILED" };
    println!("-- {} {verdict} in {:.1} s", step.name, began.elapsed().as_secs_f32());
    result
}

fn explored(tests: Call, deep: bool) -> Call {
    if deep { tests.env("TIDELOCK_DEEP", "1") } else { tests }
}

fn in_full(contract: Call, deep: bool) -> Call {
    if deep { contract.arg("--deep") } else { contract }
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
    Err(format!("there is no step `{name}`; `cargo xtask test --list` lists them").into())
}
