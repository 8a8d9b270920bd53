//! The command line: plays worlds, seed by seed, until the time is over or a promise is broken.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lexopt::Parser;
use lexopt::prelude::*;
use serde_json::{Value, json};
use tidelock_history::{Event, timeline};

use crate::plan::{Plan, Stores};
use crate::record::Finding;
use crate::time::lock;
use crate::world::Outcome;
use crate::{draw, shrink, world};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// How often the progress is shown.
const PROGRESS: Duration = Duration::from_secs(5);

/// For how many looks of the watch, one a second, a world may be played. Most take milliseconds. Looks are counted and not
/// the time: a machine that stood still is no finding.
const MOST_LOOKS: u32 = 30;

/// The worlds that are being played, and how often the watch has seen them.
static PLAYING: Mutex<BTreeMap<u64, u32>> = Mutex::new(BTreeMap::new());

struct Request {
    seed: u64,
    lasts: Duration,
    /// How many worlds are played at most.
    worlds: u64,
    threads: usize,
    /// Only that seed, or only that world.
    is_one: bool,
    world: Option<PathBuf>,
    /// What keeps the lines.
    stores: Stores,
    /// Shows all that happens.
    steps: bool,
    /// Plays each world twice, and compares the histories.
    twice: bool,
    /// Makes a broken world smaller.
    shrinks: bool,
    histories: PathBuf,
}

pub(crate) fn main() -> ExitCode {
    match request().and_then(|request| run(&request)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn request() -> Fallible<Request> {
    let mut request = Request {
        seed: fresh_seed(),
        lasts: Duration::from_secs(60),
        worlds: u64::MAX,
        threads: 1,
        is_one: false,
        world: None,
        stores: Stores::Memory,
        steps: false,
        twice: false,
        shrinks: true,
        histories: std::env::temp_dir().join("tidelock-simulation"),
    };
    let mut flags = Parser::from_env();
    let mut is_bounded = false;
    while let Some(flag) = flags.next()? {
        match flag {
            Long("seed") => (request.seed, request.is_one) = (flags.value()?.parse()?, true),
            Long("for") => {
                (request.lasts, is_bounded) = (Duration::from_secs_f64(flags.value()?.parse()?), true);
            }
            Long("worlds") => {
                (request.lasts, request.worlds) = (Duration::MAX, flags.value()?.parse()?);
                is_bounded = true;
            }
            Long("threads") => request.threads = flags.value()?.parse()?,
            Long("world") => request.world = Some(flags.value()?.into()),
            Long("stores") => request.stores = stores(&flags.value()?.string()?)?,
            Long("steps") => request.steps = true,
            Long("twice") => request.twice = true,
            Long("as-it-is") => request.shrinks = false,
            Long("histories") => request.histories = flags.value()?.into(),
            other => return Err(other.unexpected().into()),
        }
    }
    request.is_one &= !is_bounded;
    Ok(request)
}

const STORES: [(&str, Stores); 4] = [
    ("memory", Stores::Memory),
    ("redis", Stores::Redis),
    ("redis-sentinels", Stores::RedisSentinels),
    ("redis-cluster", Stores::RedisCluster),
];

fn stores(word: &str) -> Fallible<Stores> {
    let found = STORES.into_iter().find(|(known, _)| *known == word).map(|(_, stores)| stores);
    found.ok_or_else(|| format!("there are no stores {word:?}").into())
}

/// How other stores than memory are called on the command line.
fn word_of(stores: Stores) -> Option<&'static str> {
    STORES.into_iter().skip(1).find(|(_, known)| *known == stores).map(|(word, _)| word)
}

/// The plan of a seed, for these stores.
fn drawn(seed: u64, stores: Stores) -> Plan {
    let plan = draw::plan(seed);
    if stores == Stores::Memory { plan } else { draw::servers::on(plan, stores) }
}

/// A seed that nobody chose: worlds that were perhaps never played.
fn fresh_seed() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs())
}

fn run(request: &Request) -> Fallible<bool> {
    std::panic::set_hook(Box::new(|_| {})); // a panic is a finding, and told as such
    std::thread::spawn(watch);
    if let Some(file) = &request.world {
        let saved: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        let plan: Plan = serde_json::from_value(saved.get("world").cloned().unwrap_or(saved))?;
        return Ok(play_one(request, &plan));
    }
    if request.is_one {
        return Ok(play_one(request, &drawn(request.seed, request.stores)));
    }
    Ok(play_many(request))
}

/// Plays a world, while the watch looks at how long that takes.
fn play(plan: &Plan) -> Outcome {
    lock(&PLAYING).insert(plan.seed, 0);
    let outcome = world::play(plan);
    lock(&PLAYING).remove(&plan.seed);
    outcome
}

/// Ends the program if a world does not end. Then a task never waits, and time cannot move on.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let mut playing = lock(&PLAYING);
        playing.values_mut().for_each(|looks| *looks += 1);
        if let Some((seed, _)) = playing.iter().find(|(_, looks)| **looks > MOST_LOOKS) {
            println!("broken: spins: a task of world {seed} never waits");
            println!("replay: cargo xtask simulate --seed {seed}, with the same --stores");
            std::process::exit(1);
        }
    }
}

fn play_one(request: &Request, plan: &Plan) -> bool {
    let outcome = play(plan);
    if request.steps {
        println!("{plan}");
        outcome.history.events.iter().for_each(|event| println!("{}", line(event)));
    }
    if request.twice && !is_same(&outcome, &play(plan)) {
        println!("BROKEN seed {}: the same world has two histories", plan.seed);
        return false;
    }
    tell(request, plan, &outcome)
}

fn play_many(request: &Request) -> bool {
    let began = Instant::now();
    let end = request.seed.saturating_add(request.worlds);
    let (next, worlds, lived) = (AtomicU64::new(request.seed), AtomicU64::new(0), AtomicU64::new(0));
    let is_broken = AtomicBool::new(false);
    let shown = Mutex::new(Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..request.threads {
            scope.spawn(|| {
                while began.elapsed() < request.lasts && !is_broken.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let plan = drawn(seed, request.stores);
                    let outcome = play(&plan);
                    let total =
                        lived.fetch_add(millis(outcome.lived), Ordering::Relaxed) + millis(outcome.lived);
                    let count = worlds.fetch_add(1, Ordering::Relaxed) + 1;
                    let is_odd = request.twice && !is_same(&outcome, &play(&plan));
                    if is_odd {
                        println!("BROKEN seed {}: the same world has two histories", plan.seed);
                    }
                    if is_odd || (!outcome.findings.is_empty() && !is_broken.swap(true, Ordering::Relaxed)) {
                        is_broken.store(true, Ordering::Relaxed);
                        println!("after {:.1} s:", began.elapsed().as_secs_f64());
                        tell(request, &plan, &outcome);
                        return;
                    }
                    let mut shown = lock(&shown);
                    if shown.elapsed() >= PROGRESS {
                        *shown = Instant::now();
                        println!("{}", progress(plan.seed, count, total, began.elapsed(), request.threads));
                    }
                }
            });
        }
    });
    let (count, total) = (worlds.load(Ordering::Relaxed), lived.load(Ordering::Relaxed));
    let last = next.load(Ordering::Relaxed).min(end) - 1;
    println!("{}", progress(last, count, total, began.elapsed(), request.threads));
    !is_broken.load(Ordering::Relaxed)
}

fn progress(seed: u64, worlds: u64, lived: u64, took: Duration, threads: usize) -> String {
    let minutes = lived as f64 / 60_000.0;
    let rate = minutes / (took.as_secs_f64() / 60.0) / threads as f64;
    format!(
        "seed {seed}: {worlds} worlds, {minutes:.0} client-minutes in {:.0} s, {rate:.0} a minute of one core",
        took.as_secs_f64()
    )
}

/// Tells what a world broke, and makes it smaller. Returns whether it broke nothing.
fn tell(request: &Request, plan: &Plan, outcome: &Outcome) -> bool {
    let Some(first) = outcome.findings.first() else {
        let events = outcome.history.events.len();
        println!("ok seed {}: {events} events in {:?} of all clients", plan.seed, outcome.lived);
        return true;
    };
    println!("broken: {}: {}", first.check, first.sentence);
    let stores = word_of(plan.stores).map_or_else(String::new, |word| format!(" --stores {word}"));
    println!("replay: cargo xtask simulate --seed {}{stores}", plan.seed);
    if !request.shrinks {
        return false;
    }
    let (plan, outcome) = shrink::shrink(plan, first.check);
    println!("\nThe smallest world that breaks it:\n{plan}\n");
    for finding in outcome.findings.iter().take(4) {
        println!("broken: {}: {}", finding.check, finding.sentence);
    }
    println!("{}", timeline(&outcome.history.events, outcome.violation.as_ref()));
    match save(request, &plan, &outcome) {
        Ok(file) => {
            println!("saved, for the playground and for `cargo xtask simulate --world`: {}", file.display());
        }
        Err(error) => println!("the history cannot be saved: {error}"),
    }
    false
}

/// Saves a history with its world, and with what was broken and where, so that the playground goes there.
fn save(request: &Request, plan: &Plan, outcome: &Outcome) -> Fallible<PathBuf> {
    let first = outcome.findings.first();
    let why = first.map_or("", |finding| &finding.sentence);
    let mut history = outcome.history.to_json(why, outcome.violation.as_ref());
    if let Some(history) = history.as_object_mut() {
        history.insert("world".into(), json!(plan));
        if let Some(first) = first {
            history.entry("broken").or_insert_with(|| broken(first));
        }
    }
    std::fs::create_dir_all(&request.histories)?;
    let file = request.histories.join(format!("world-{}.json", plan.seed));
    std::fs::write(&file, history.to_string())?;
    Ok(file)
}

/// What was found while the world was played, in the form of what the checker finds in a history.
fn broken(Finding { check, sentence, after }: &Finding) -> Value {
    let at = after.saturating_sub(1);
    json!({ "promise": check, "sentence": sentence, "claims": [], "from": at, "to": at })
}

fn is_same(one: &Outcome, other: &Outcome) -> bool {
    let text = |outcome: &Outcome| outcome.history.to_json("", None).to_string();
    text(one) == text(other) && one.findings == other.findings
}

fn line(event: &Event) -> String {
    let Event { at, who, name, claim, what } = event;
    format!("{:>12.3} ms {who} {name} {claim}: {}", at.as_secs_f64() * 1000.0, what.sentence())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
