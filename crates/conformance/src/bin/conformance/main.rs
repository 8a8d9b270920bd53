//! `conformance`: runs the suite on a backend, a storm over it, or the suite's own proof, or writes the table of
//! guarantees.

mod storm;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use lexopt::ValueExt;
use tidelock::Options;
use tidelock_conformance::report::{POINTS, Painter, table};
use tidelock_conformance::subjects::{Control, Remote};
use tidelock_conformance::{
    ELSEWHERE, LESSONS, ONLY_SERVERS, Role, Settings, Subject, Trial, prove, run_with, serve_as_child,
    serve_as_player, subjects, trials,
};

const USAGE: &str = "\
The contract of Tidelock as trials, on a backend.

Usage: conformance [--backend memory] [--filter PART] [--deep] [--report FILE] [--seed N]
       conformance --backend NAME --url URL [--control PROGRAM --deployment NAME] [the same]
       conformance --storm TIME [--backend NAME …] [--seed N]
                                   everything at once, at random, for this long: 90s, 20m, 8h
       conformance --list          which trial proves what
       conformance --prove         the suite's own proof: it catches every backend that is broken on purpose
       conformance --table FILE…   the table of guarantees for README, from these reports

  --backend NAME  the backend to test; the default is memory
  --url URL       the server to test it on
  --control PROGRAM --deployment NAME
                  the program that started the server; it can stop, start and pause it, and set its clock:
                  PROGRAM servers act NAME MEMBER stop|kill|start|pause|resume|clock [MILLISECONDS]
  --filter PART   only trials whose name contains this; with --prove only such faults, with their histories
  --deep          larger crowds, more rounds: takes minutes
  --report FILE   writes a report as JSON
  --seed N        replays the random choices of an earlier run, or the plan of a round of a storm
";

/// The time-out of a trial in a deep run.
const DEEP_TIME_OUT: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Flags {
    backend: Option<String>,
    url: Option<String>,
    control: Option<PathBuf>,
    deployment: Option<String>,
    filter: Option<String>,
    deep: bool,
    report: Option<PathBuf>,
    seed: Option<u64>,
    /// Internal: this process is a client of a trial.
    child: Option<Child>,
    /// Internal: the part that this client plays in a storm.
    role: Option<Role>,
    what: What,
}

/// The identity of a child, from its command line.
#[derive(Default)]
struct Child {
    label: String,
    namespace: String,
    ttl: Duration,
}

#[derive(Default)]
enum What {
    #[default]
    Run,
    Storm(Duration),
    List,
    Prove,
    Table(Vec<PathBuf>),
    Help,
}

fn main() -> ExitCode {
    match parse().and_then(|flags| act(&flags)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Flags, lexopt::Error> {
    use lexopt::Arg::{Long, Short, Value};
    let (mut flags, mut parser) = (Flags::default(), lexopt::Parser::from_env());
    while let Some(arg) = parser.next()? {
        match arg {
            Long("backend") => flags.backend = Some(parser.value()?.string()?),
            Long("url") => flags.url = Some(parser.value()?.string()?),
            Long("control") => flags.control = Some(parser.value()?.into()),
            Long("deployment") => flags.deployment = Some(parser.value()?.string()?),
            Long("as-child") => {
                let (label, namespace) = (parser.value()?.string()?, parser.value()?.string()?);
                let ttl = Duration::from_millis(parser.value()?.parse()?);
                flags.child = Some(Child { label, namespace, ttl });
            }
            Long("plays") => {
                let (seed, number) = (parser.value()?.parse()?, parser.value()?.parse()?);
                flags.role = Some(Role { seed, number, folder: parser.value()?.into() });
            }
            Long("storm") => flags.what = What::Storm(storm::duration(&parser.value()?.string()?)?),
            Long("filter") => flags.filter = Some(parser.value()?.string()?),
            Long("deep") => flags.deep = true,
            Long("report") => flags.report = Some(parser.value()?.into()),
            Long("seed") => flags.seed = Some(parser.value()?.parse()?),
            Long("list") => flags.what = What::List,
            Long("prove") => flags.what = What::Prove,
            Long("table") => flags.what = What::Table(vec![parser.value()?.into()]),
            Long("help") | Short('h') => flags.what = What::Help,
            Value(file) => match &mut flags.what {
                What::Table(files) => files.push(file.into()),
                _ => return Err(Value(file).unexpected()),
            },
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(flags)
}

fn act(flags: &Flags) -> Result<bool, lexopt::Error> {
    if let Some(child) = &flags.child {
        return be_child(flags, child);
    }
    match &flags.what {
        What::Help => say(USAGE.trim_end()),
        What::List => list(flags),
        What::Table(files) => say(table(&read(files)?)?.trim_end()),
        What::Prove => return Ok(prove_all(flags)),
        What::Storm(lasts) => return storm::run(flags, *lasts, flags.seed.unwrap_or_else(new_seed)),
        What::Run => return run_all(flags),
    }
    Ok(true)
}

fn run_all(flags: &Flags) -> Result<bool, lexopt::Error> {
    let (subject, settings, painter) = (subject(flags)?, settings(flags), Painter::for_stdout());
    let seed = settings.seed;
    ask_first(flags, &*subject)?;
    say(&format!("the contract on {}, seed {seed} (replay with --seed {seed})\n", subject.name()));
    let report = run_with(&subject, &settings, &mut |verdict| say(&verdict.text(painter)));
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
fn ask_first(flags: &Flags, subject: &dyn Subject) -> Result<(), lexopt::Error> {
    if flags.url.is_none() {
        return Ok(());
    }
    let unusable = |error: &dyn std::fmt::Display| {
        format!("no trial was run: cannot use the {} at that URL: {error}", subject.name())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unusable(&error))?;
    let asked = runtime.block_on(async {
        let locks =
            remote(flags).map_err(|error| error.to_string())?.connect(Options::new().label("first")).await;
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

/// Prints a line. If the reader is gone, as behind `| head`, the program exits.
fn say(text: &str) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(2);
    }
}

fn subject(flags: &Flags) -> Result<Arc<dyn Subject>, lexopt::Error> {
    match (backend(flags), &flags.url) {
        ("memory", None) => Ok(Arc::new(subjects::memory())),
        ("memory-in-real-time", None) => Ok(Arc::new(subjects::memory_in_real_time())),
        ("memory" | "memory-in-real-time", Some(_)) => {
            Err("the memory backend has no server: leave out --url".into())
        }
        _ => Ok(Arc::new(remote(flags)?)),
    }
}

fn backend(flags: &Flags) -> &str {
    flags.backend.as_deref().unwrap_or("memory")
}

/// The server at the URL, with the options for it.
fn remote(flags: &Flags) -> Result<Remote, lexopt::Error> {
    let mut remote = match (backend(flags), &flags.url) {
        ("redis" | "zookeeper", None) => {
            return Err(format!("{} needs a server: give --url URL", backend(flags)).into());
        }
        ("redis", Some(url)) => redis(url)?,
        ("zookeeper", Some(url)) => zookeeper(url)?,
        (other, _) => {
            return Err(format!(
                "there is no backend {other:?}; there are: memory, memory-in-real-time, redis, \
                 zookeeper"
            )
            .into());
        }
    };
    remote = match (&flags.control, &flags.deployment) {
        (Some(program), Some(deployment)) => remote.controlled_by(Control::new(program, deployment)),
        (None, None) => remote,
        _ => return Err("give both --control and --deployment, or neither".into()),
    };
    if let (Ok(program), Some(url)) = (std::env::current_exe(), flags.url.clone()) {
        let backend = backend(flags).to_owned();
        remote = remote.with_children(move |options| child(&program, &backend, &url, options));
    }
    Ok(remote)
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<Remote, lexopt::Error> {
    Ok(Remote::new(subjects::Redis::at(url).map_err(|error| error.to_string())?))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> Result<Remote, lexopt::Error> {
    Err(without("redis"))
}

#[cfg(feature = "zookeeper")]
fn zookeeper(url: &str) -> Result<Remote, lexopt::Error> {
    Ok(Remote::new(subjects::ZooKeeper::at(url).map_err(|error| error.to_string())?))
}

#[cfg(not(feature = "zookeeper"))]
fn zookeeper(_: &str) -> Result<Remote, lexopt::Error> {
    Err(without("zookeeper"))
}

/// What to do about a backend that was not built in.
#[cfg(not(all(feature = "redis", feature = "zookeeper")))]
fn without(backend: &str) -> lexopt::Error {
    format!(
        "this program was built without {backend}; \
         `cargo run -p tidelock-conformance --features {backend} -- --backend {backend} …` builds it in, \
         and so does `cargo xtask conformance --backend {backend}`"
    )
    .into()
}

/// The command that runs this program again, as a client.
fn child(program: &Path, backend: &str, url: &str, options: &Options) -> Command {
    let ttl = options.ttl.as_millis().to_string();
    let mut command = Command::new(program);
    command.args([
        "--backend",
        backend,
        "--url",
        url,
        "--as-child",
        &options.label,
        &options.namespace,
        &ttl,
    ]);
    command
}

fn be_child(flags: &Flags, child: &Child) -> Result<bool, lexopt::Error> {
    let options = Options::new().ttl(child.ttl).label(&child.label);
    let remote = remote(flags)?;
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
