//! A part played in a process of its own, which the system can kill and stop.
//!
//! The process draws its part from the seed, and reports on its standard output what happens, one line each: an event
//! as in a saved history, or a word of its pulse. It stops when its input says so. When the input ends, the process
//! ends at once and gives nothing back. For a killed process only its reports are known: it held what it held until
//! its last look.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidelock_core::backend::Moment;
use tidelock_core::{Error, ErrorKind, Options, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::plan::Part;
use super::player::{Field, let_loose};
use super::pulse::{Beat, Pulse, stumble};
use super::register::Registers;
use super::story::{Outage, Story};
use super::used_name::UsedName;
use crate::child::Running;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::history::{Event, EventKind, Recorder};
use crate::{RealTime, Server};

/// How many claims a process may have. The numbers of the next process begin there.
const CLAIMS: u64 = 1 << 32;
/// How often a process reports.
const PAGE: Duration = Duration::from_millis(5);
const GLANCE: Duration = Duration::from_millis(5);

/// What a process of a storm must know, besides how to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The seed of the round.
    pub seed: u64,
    /// The number of the process in the round.
    pub number: u64,
    /// The folder of the registers.
    pub folder: PathBuf,
}

/// Runs one process of a storm: plays its part on that server, and reports what happens, until standard input says
/// that it is over.
///
/// # Errors
/// If it cannot connect, or cannot start a runtime.
pub fn serve_as_player(server: &dyn Server, options: Options, role: &Role) -> Result<()> {
    let no_runtime = |error| Error::new(ErrorKind::Unsupported, "cannot start a runtime").because(error);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(no_runtime)?.block_on(play(server, options, role))
}

async fn play(server: &dyn Server, options: Options, role: &Role) -> Result<()> {
    let trouble = |error| Error::new(ErrorKind::Unavailable, "a process of a storm failed").because(error);
    let first = (role.number + 1) * CLAIMS;
    let recorder = Arc::new(Recorder::of_many(Arc::new(RealTime), Moment::START, first, say_events));
    server.listen(recorder.witness().clone());
    let (label, ttl) = (options.label.clone(), options.ttl);
    let part = Part::draw(role.seed, &label);
    let options = part.options(ttl);
    recorder.lingers(options.linger);
    let locks = server.connect(options).await?;
    let client = Client::new(locks.clone(), &label, recorder.clone());
    let (over, is_over) = watch::channel(false);
    wait_for_the_end(over);
    let registers = Arc::new(Registers::in_folder(&role.folder).map_err(trouble)?);
    let names = UsedName::draw(role.seed).into();
    let field = Field { names, registers, recorder: recorder.clone(), ttl, is_over };
    let heart = recorder.clone();
    let mut said = Moment::START;
    let pulse = Pulse::start(recorder.clone(), stumble(ttl), move |beat| match beat {
        Beat::Looked(at) if at.since(said) >= PAGE => {
            said = at;
            heart.write_down(); // a loss must come before the look that found the other holds well
            say(&format!("looked {}", at.as_nanos()));
        }
        Beat::Looked(_) => {}
        Beat::Stumbled(Outage { from, to, what }) => {
            say(&format!("stumbled {} {} {what}", from.as_nanos(), to.as_nanos()));
        }
    });
    let pulse = pulse.map_err(trouble)?;
    say("ready");
    let mut tasks = JoinSet::new();
    let_loose(&client, &part, &field, &mut tasks);
    while let Some(done) = tasks.join_next().await {
        if let Err(failure) = done.unwrap_or_else(|error| Err(error.into())) {
            say(&format!("failed {}", failure.to_string().replace('\n', " ")));
        }
    }
    drop(client);
    let closed = locks.close().await;
    drop(pulse);
    recorder.write_down();
    if let Err(error) = closed {
        say(&format!("unclosed {error}"));
    }
    say("done");
    Ok(())
}

/// A thread waits for the word, so the end of the input is seen whatever else the process waits for.
fn wait_for_the_end(over: watch::Sender<bool>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            if line == "over" {
                over.send_replace(true);
            }
        }
        std::process::exit(0);
    });
}

fn say_events(events: &[Event]) {
    let lines: String = events.iter().map(|event| format!("{}\n", event.to_json())).collect();
    say(lines.trim_end());
}

/// The reader may be gone: then the input ends too.
fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// A process of a storm, as the round sees it. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    orders: ChildStdin,
    heard: Arc<Mutex<Heard>>,
    reading: Option<JoinHandle<()>>,
}

/// What it has reported.
#[derive(Debug)]
struct Heard {
    is_ready: bool,
    is_done: bool,
    events: Vec<Event>,
    /// Its last look at all its holds.
    looked: Moment,
    outages: Vec<Outage>,
    failures: Vec<String>,
}

impl Process {
    /// Starts the process with that command, to play that role.
    pub(super) fn start(
        mut command: Command,
        label: &str,
        seed: u64,
        number: u64,
        folder: &Path,
    ) -> Outcome<Self> {
        let failed = |why: String| Failure::new(format!("{label} did not start: {why}"));
        command.arg("--plays").args([seed.to_string(), number.to_string()]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(orders), Some(said)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("its standard input or output is missing".to_owned()));
        };
        let heard = Arc::new(Mutex::new(Heard::nothing()));
        let hearing = heard.clone();
        let reading = std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(std::result::Result::ok) {
                hear(&hearing).take(&line);
            }
        });
        Ok(Self { running: Running::new(process, label), orders, heard, reading: Some(reading) })
    }

    /// Waits until it plays.
    pub(super) async fn ready(&self, within: Duration) -> Outcome {
        self.until(within, "it was ready", |heard| heard.is_ready).await
    }

    /// Kills it: it relies on nothing any more, and gives nothing back.
    pub(super) fn kill(&mut self) -> Outcome {
        self.running.kill()
    }

    pub(super) fn stop(&self) -> Outcome {
        self.running.stop()
    }

    pub(super) fn go_on(&self) -> Outcome {
        self.running.go_on()
    }

    pub(super) fn was_killed(&self) -> bool {
        self.running.was_killed()
    }

    /// Tells it that the round is over.
    pub(super) fn end(&mut self) {
        let _ = writeln!(self.orders, "over").and_then(|()| self.orders.flush()); // it may be dead
    }

    /// Waits until it has ended by itself, unless it was killed.
    pub(super) async fn ended(&self, within: Duration) -> Outcome {
        if self.was_killed() {
            return Ok(());
        }
        self.until(within, "it finished", |heard| heard.is_done).await?;
        match hear(&self.heard).failures.first() {
            Some(failure) => Err(Failure::new(format!("{}: {failure}", self.running.label()))),
            None => Ok(()),
        }
    }

    /// Adds its reports to the story.
    pub(super) fn tell(mut self, story: &mut Story, began: Moment) {
        let _ = self.running.kill(); // it may have ended
        if let Some(reading) = self.reading.take() {
            let _ = reading.join(); // its panic has been printed
        }
        let mut heard = hear(&self.heard);
        let last = heard.looked;
        let mut events = std::mem::take(&mut heard.events);
        if self.running.was_killed() {
            end_all(&mut events, last.since(Moment::START));
        }
        let began = began.since(Moment::START);
        events.iter_mut().for_each(|event| event.at = event.at.saturating_sub(began));
        story.events.extend(events);
        story.outages.append(&mut heard.outages);
    }

    async fn until(&self, within: Duration, what: &str, holds: impl Fn(&Heard) -> bool) -> Outcome {
        let began = Instant::now();
        loop {
            {
                let heard = hear(&self.heard);
                if holds(&heard) {
                    return Ok(());
                }
                let has_ended = self.reading.as_ref().is_none_or(JoinHandle::is_finished);
                if has_ended || began.elapsed() > within {
                    let said = heard.failures.join("; ");
                    let how = if has_ended { "ended before" } else { "timed out before" };
                    return Err(Failure::new(format!("{} {how} {what}: {said}", self.running.label())));
                }
            }
            tokio::time::sleep(GLANCE).await;
        }
    }
}

fn hear(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    fn nothing() -> Self {
        let (events, outages, failures) = (Vec::new(), Vec::new(), Vec::new());
        Self { is_ready: false, is_done: false, events, looked: Moment::START, outages, failures }
    }

    fn take(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut numbers = rest.splitn(3, ' ');
        let mut number = || numbers.next().and_then(|number| number.parse().ok()).map(Moment::from_nanos);
        match word {
            "ready" => self.is_ready = true,
            "done" => self.is_done = true,
            "looked" => self.looked = number().unwrap_or(self.looked),
            "stumbled" => {
                if let (Some(from), Some(to)) = (number(), number()) {
                    let what = numbers.next().unwrap_or_default().to_owned();
                    self.outages.push(Outage { from, to, what });
                }
            }
            "failed" => self.failures.push(rest.to_owned()),
            _ => {
                let event = serde_json::from_str::<Value>(line).ok();
                self.events.extend(event.as_ref().and_then(Event::from_json));
            }
        }
    }
}

/// Ends all claims that were still asked for or held. Holds end at the last look, because nothing is known since then.
fn end_all(events: &mut Vec<Event>, looked: Duration) {
    let mut open: BTreeMap<u64, Event> = BTreeMap::new();
    for event in events.iter().filter(|event| event.claim > 0) {
        match event.what {
            EventKind::Asked { .. } | EventKind::Granted { .. } => {
                drop(open.insert(event.claim, event.clone()));
            }
            EventKind::LetGo
            | EventKind::Lost
            | EventKind::Refused
            | EventKind::Failed
            | EventKind::Cancelled => {
                open.remove(&event.claim);
            }
            _ => {}
        }
    }
    for event in open.into_values() {
        let what =
            if matches!(event.what, EventKind::Asked { .. }) { EventKind::Failed } else { EventKind::LetGo };
        events.push(Event { at: looked.max(event.at), what, ..event });
    }
}
