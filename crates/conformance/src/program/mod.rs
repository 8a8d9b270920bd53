//! A program of the suite: the contract on one backend, a storm over it, the suite's own proof, and the tables of
//! guarantees.
//!
//! Each backend has a program of its own, of a few lines: it says what its backend is, and calls [`main`].

mod counter;
mod say;
mod storm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use counter::Counter;
use lexopt::ValueExt;
use say::say;
use tidelock_core::Options;

use crate::report::{POINTS, Painter, table};
use crate::subjects::{Control, Remote};
use crate::{
    ELSEWHERE, LESSONS, ONLY_SERVERS, Role, Settings, Subject, Trial, prove, run_with, serve_as_child,
    serve_as_player, subjects, trials,
};

const USAGE: &str = "\
The contract of Tidelock as trials, on a backend.

Usage: conformance [--url URL [--control PROGRAM --deployment NAME]] [--filter PART] [--deep] [--report FILE] [--seed N]
                   [--linger MS]
       conformance --storm TIME [--url URL …] [--seed N]
                                   everything at once, at random, for this long: 90s, 20m, 8h
       conformance --list          which trial proves what
       conformance --prove         the suite's own proof: it catches every backend that is broken on purpose
       conformance --table FILE…   the tables of guarantees from these reports: for README.md, then for docs/guarantees.md

  --url URL       the server to test, if the backend has one
  --control PROGRAM --deployment NAME
                  the program that started the server; it can stop, start and pause it, and set its clock:
                  PROGRAM servers act NAME MEMBER stop|kill|start|pause|resume|clock [MILLISECONDS]
  --filter PART   only trials whose name contains this; with --prove only such faults, with their histories
  --deep          larger crowds, more rounds: takes minutes
  --without-crowds
                  no crowds of thousands, for one of several deployments of the same store
  --report FILE   writes a report as JSON
  --seed N        replays the random choices of an earlier run, or the plan of a round of a storm
  --linger MS     the clients pass a hold on among their own tasks for this long; 0: each task stands in line itself
  --real-time     only for memory: use the boot clock, not a clock that the trials turn
";

/// The backend that a program of the suite tests.
#[derive(Clone, Copy, Debug)]
pub struct Backend(Tried);

#[derive(Clone, Copy, Debug)]
enum Tried {
    Memory,
    Servers { name: &'static str, at: At },
}

/// Opens the server at a URL.
type At = fn(&str) -> tidelock_core::Result<Remote>;

impl Backend {
    /// The memory backend.
    #[must_use]
    pub const fn memory() -> Self {
        Self(Tried::Memory)
    }

    /// A backend that needs a server: its name, and how to open the server at a URL.
    #[must_use]
    pub const fn with_servers(name: &'static str, at: At) -> Self {
        Self(Tried::Servers { name, at })
    }
}

/// The time-out of a trial in a deep run.
const DEEP_TIME_OUT: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Flags {
    /// Only for memory: use the boot clock.
    real_time: bool,
    url: Option<String>,
    control: Option<PathBuf>,
    deployment: Option<String>,
    filter: Option<String>,
    deep: bool,
    without_crowds: bool,
    report: Option<PathBuf>,
    seed: Option<u64>,
    linger: Option<Duration>,
    /// Internal: this process is a client of a trial.
    child: Option<Child>,
    /// Internal: the part that this client plays in a storm.
    role: Option<Role>,
    mode: Mode,
}

/// The identity of a child, from its command line.
#[derive(Default)]
struct Child {
    label: String,
    namespace: String,
    ttl: Duration,
    linger: Duration,
}

#[derive(Default)]
enum Mode {
    #[default]
    Run,
    Storm(Duration),
    List,
    Prove,
    Table(Vec<PathBuf>),
    Help,
}

/// Mode the program does: reads its arguments, and says how it went. 0: the contract holds; 1: it is broken; 2: it could
/// not be tried.
#[must_use]
pub fn main(backend: &Backend) -> ExitCode {
    match run(backend, std::env::args_os()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// The same with these arguments, of which the first is the program's name. Says whether the contract holds.
///
/// # Errors
/// A sentence that says why it could not be tried.
pub fn run<A: Into<OsString>>(
    backend: &Backend,
    args: impl IntoIterator<Item = A, IntoIter: 'static>,
) -> Result<bool, lexopt::Error> {
    act(backend, &parse(lexopt::Parser::from_iter(args))?)
}

fn parse(mut parser: lexopt::Parser) -> Result<Flags, lexopt::Error> {
    use lexopt::Arg::{Long, Short, Value};
    let mut flags = Flags::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("real-time") => flags.real_time = true,
            Long("url") => flags.url = Some(parser.value()?.string()?),
            Long("control") => flags.control = Some(parser.value()?.into()),
            Long("deployment") => flags.deployment = Some(parser.value()?.string()?),
            Long("as-child") => {
                let (label, namespace) = (parser.value()?.string()?, parser.value()?.string()?);
                let (ttl, linger) = (milliseconds(&mut parser)?, milliseconds(&mut parser)?);
                flags.child = Some(Child { label, namespace, ttl, linger });
            }
            Long("plays") => {
                let (seed, number) = (parser.value()?.parse()?, parser.value()?.parse()?);
                flags.role = Some(Role { seed, number, folder: parser.value()?.into() });
            }
            Long("storm") => flags.mode = Mode::Storm(storm::duration(&parser.value()?.string()?)?),
            Long("filter") => flags.filter = Some(parser.value()?.string()?),
            Long("deep") => flags.deep = true,
            Long("without-crowds") => flags.without_crowds = true,
            Long("report") => flags.report = Some(parser.value()?.into()),
            Long("seed") => flags.seed = Some(parser.value()?.parse()?),
            Long("linger") => flags.linger = Some(milliseconds(&mut parser)?),
            Long("list") => flags.mode = Mode::List,
            Long("prove") => flags.mode = Mode::Prove,
            Long("table") => flags.mode = Mode::Table(vec![parser.value()?.into()]),
            Long("help") | Short('h') => flags.mode = Mode::Help,
            Value(file) => match &mut flags.mode {
                Mode::Table(files) => files.push(file.into()),
                _ => return Err(Value(file).unexpected()),
            },
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(flags)
}

fn milliseconds(parser: &mut lexopt::Parser) -> Result<Duration, lexopt::Error> {
    Ok(Duration::from_millis(parser.value()?.parse()?))
}

fn act(backend: &Backend, flags: &Flags) -> Result<bool, lexopt::Error> {
    if let Some(child) = &flags.child {
        return be_child(backend, flags, child);
    }
    match &flags.mode {
        Mode::Help => say(USAGE.trim_end()),
        Mode::List => list(flags),
        Mode::Table(files) => say(table(&read(files)?)?.trim_end()),
        Mode::Prove => return Ok(prove_all(flags)),
        Mode::Storm(lasts) => {
            let seed = flags.seed.unwrap_or_else(new_seed);
            return Ok(storm::run(&subject(backend, flags)?, seed, *lasts));
        }
        Mode::Run => return run_all(backend, flags),
    }
    Ok(true)
}

fn run_all(backend: &Backend, flags: &Flags) -> Result<bool, lexopt::Error> {
    let (subject, settings, painter) = (subject(backend, flags)?, settings(flags), Painter::for_stdout());
    let (seed, linger) = (settings.seed, settings.linger);
    let name = subject.name();
    say(&format!("the contract on {name}, linger {linger:?}, seed {seed} (replay with --seed {seed})\n"));
    let mut counter = Counter::on_stdout(settings.trials().count());
    counter.show();
    let report = run_with(&subject, &settings, &mut |verdict| {
        counter.step();
        say(&verdict.text(painter));
        counter.show();
    });
    counter.clear();
    if report.verdicts.is_empty() {
        return Err(format!("no trial has {:?} in its name", settings.filter.unwrap_or_default()).into());
    }
    if let Some(file) = &flags.report {
        write(file, &format!("{:#}\n", report.to_json()))?;
    }
    say(&report.summary(painter));
    Ok(report.passed())
}

/// Checks first that the server can be used. Otherwise every trial would report the same error in its own way.
fn ask_first(remote: &Remote) -> Result<(), lexopt::Error> {
    let unusable = |error: &dyn std::fmt::Display| {
        format!("no trial was run: cannot use the {} at that URL: {error}", remote.name())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unusable(&error))?;
    let asked = runtime.block_on(async {
        let locks = remote.connect(Options::new().label("first")).await;
        locks.map_err(|error| error.to_string())?.close().await.map_err(|error| error.to_string())
    });
    asked.map_err(|error| unusable(&error).into())
}

fn prove_all(flags: &Flags) -> bool {
    let painter = Painter::for_stdout();
    let proof = prove(&settings(flags), &mut |step| {
        say(&step.text(painter));
        if flags.filter.is_some() {
            say(&step.timeline());
        }
    });
    say(&format!("\n{} passed, {} failed, 0 skipped", proof.passed(), proof.failed()));
    proof.holds()
}

fn list(flags: &Flags) {
    let is_chosen = |name: &str| flags.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
    say("Each trial, under the first point of the contract that it tests:");
    for (point, title) in (1..).zip(POINTS) {
        say(&format!("\n{point}. {title}"));
        for trial in trials().iter().filter(|trial| trial.points[0] == point && is_chosen(trial.name)) {
            say(&format!("   {}{}", trial.name, notes(trial)));
        }
    }
    say("\nMistakes of other libraries, and the trials that would show them here:\n");
    for (lesson, what) in (1..).zip(LESSONS) {
        let shown = trials().iter().filter(|trial| trial.lessons.contains(&lesson));
        say(&format!("{lesson:>2}. {what}"));
        for trial in shown.filter(|trial| is_chosen(trial.name)) {
            say(&format!("    {}", trial.name));
        }
        for (_, why) in ONLY_SERVERS.iter().filter(|(only, _)| *only == lesson) {
            say(&format!("    only a server can show it: {why}"));
        }
        for (_, where_else) in ELSEWHERE.iter().filter(|(other, _)| *other == lesson) {
            say(&format!("    no trial: {where_else}"));
        }
    }
}

/// The other points that a trial tests, and the abilities that it needs.
fn notes(trial: &Trial) -> String {
    let mut notes = Vec::new();
    if trial.points.len() > 1 {
        let others: Vec<String> = trial.points[1..].iter().map(ToString::to_string).collect();
        notes.push(format!("also {}", others.join(", ")));
    }
    if !trial.needs.is_empty() {
        let needs: Vec<&str> = trial.needs.iter().map(|need| need.as_str()).collect();
        notes.push(format!("needs to {}", needs.join(", ")));
    }
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
}

/// The subject to test. A server must have answered once.
fn subject(backend: &Backend, flags: &Flags) -> Result<Arc<dyn Subject>, lexopt::Error> {
    match (backend.0, &flags.url) {
        (Tried::Memory, None) if flags.real_time => Ok(Arc::new(subjects::memory_in_real_time())),
        (Tried::Memory, None) => Ok(Arc::new(subjects::memory())),
        _ => {
            let remote = remote(backend, flags)?;
            ask_first(&remote)?;
            Ok(Arc::new(remote))
        }
    }
}

/// The server at the URL, with the options for it.
fn remote(backend: &Backend, flags: &Flags) -> Result<Remote, lexopt::Error> {
    let (at, url) = match (backend.0, &flags.url) {
        (Tried::Memory, _) => return Err("the memory backend has no server: leave out --url".into()),
        (Tried::Servers { name, .. }, None) => {
            return Err(format!("{name} needs a server: give --url URL").into());
        }
        (Tried::Servers { at, .. }, Some(url)) => (at, url.clone()),
    };
    let mut remote = at(&url).map_err(|error| error.to_string())?;
    remote = match (&flags.control, &flags.deployment) {
        (Some(program), Some(deployment)) => remote.controlled_by(Control::new(program, deployment)),
        (None, None) => remote,
        _ => return Err("give both --control and --deployment, or neither".into()),
    };
    if flags.without_crowds {
        remote = remote.without_crowds();
    }
    if let Ok(program) = std::env::current_exe() {
        remote = remote.with_children(move |options| child(&program, &url, options));
    }
    Ok(remote)
}

/// The command that runs this program again, as a client.
fn child(program: &Path, url: &str, options: &Options) -> Command {
    let [ttl, linger] = [options.ttl, options.linger].map(|time| time.as_millis().to_string());
    let mut command = Command::new(program);
    command.args(["--url", url, "--as-child", &options.label, &options.namespace, &ttl, &linger]);
    command
}

fn be_child(backend: &Backend, flags: &Flags, child: &Child) -> Result<bool, lexopt::Error> {
    let options = Options::new().ttl(child.ttl).linger(child.linger).label(&child.label);
    let remote = remote(backend, flags)?;
    let served = match &flags.role {
        Some(role) => {
            remote.stage(&child.namespace).and_then(|stage| serve_as_player(&*stage, options, role))
        }
        None => serve_as_child(remote.connect(options.namespace(&child.namespace))),
    };
    served.map(|()| true).map_err(|error| error.to_string().into())
}

fn settings(flags: &Flags) -> Settings {
    let mut settings = Settings { filter: flags.filter.clone(), deep: flags.deep, ..Settings::default() };
    if flags.deep {
        settings.time_out = DEEP_TIME_OUT;
    }
    settings.seed = flags.seed.unwrap_or_else(new_seed);
    settings.linger = flags.linger.unwrap_or(settings.linger);
    settings
}

/// A seed that is short enough to type.
fn new_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::from(since.map_or(1, |since| since.subsec_micros()))
}

fn read(files: &[PathBuf]) -> Result<Vec<serde_json::Value>, lexopt::Error> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()).into())
    };
    files.iter().map(read).collect()
}

fn write(file: &Path, text: &str) -> Result<(), lexopt::Error> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}
