//! One round: its clients and processes start, troubles come as planned, all is healed, every task ends, every name is
//! tried again, and nothing may be left.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidelock_core::Options;
use tidelock_core::backend::Moment;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::plan::Plan;
use super::player::{Field, let_loose};
use super::process::Process;
use super::pulse::{Beat, Pulse, stumble};
use super::register::Registers;
use super::story::{Outage, Story};
use super::trouble::{Fault, Trouble};
use crate::failure::{Failure, Outcome, ensure};
use crate::history::{Event, EventKind, Recorder};
use crate::{Ability, Act, Belief, Can, Client, Dice, Settings, Stage, Subject, Whom};

/// How long connecting may take, and how long processes may take to begin.
const READY: Duration = Duration::from_secs(20);
/// How long a task may take to end when all is healed, besides a few ttls: a client may pause for long between two
/// tries to connect.
const END: Duration = Duration::from_secs(20);
/// How often to check that the server answers.
const PROBE: Duration = Duration::from_millis(100);
/// Servers that had a fault may choose a new master only after they are all back.
const AFTERMATH: Duration = Duration::from_secs(5);

/// Plays it on a thread of its own, and returns the outcome and the events.
pub(super) fn play(subject: &Arc<dyn Subject>, plan: Plan, lasts: Duration) -> (Outcome, Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return (Err(Failure::new(format!("cannot start a runtime: {error}"))), Vec::new()),
    };
    let played = runtime.block_on(async {
        match Play::begin(subject, plan).await {
            Ok(mut play) => {
                let outcome = play.go(lasts).await;
                (outcome, play.tell())
            }
            Err(failure) => (Err(failure), Vec::new()),
        }
    });
    runtime.shutdown_background();
    played
}

/// A folder that is deleted when this is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // anything left stays in the temporary folder
    }
}

/// A round under way.
struct Play {
    plan: Plan,
    stage: Stage,
    field: Field,
    over: watch::Sender<bool>,
    clients: Vec<Client>,
    processes: Vec<Process>,
    tasks: JoinSet<Outcome>,
    outages: Arc<Mutex<Vec<Outage>>>,
    overlaps: Vec<(Moment, Moment)>,
    /// A join may have arrived after its leave was forgotten: its claim stays for a ttl, and belongs to no client.
    were_late: bool,
    pulse: Option<Pulse>,
    probe: JoinHandle<()>,
    _folder: Folder,
}

impl Play {
    async fn begin(subject: &Arc<dyn Subject>, plan: Plan) -> Outcome<Self> {
        let needs = [Ability::Cut, Ability::Stall, Ability::CutPush];
        let needs: Vec<Ability> = needs.into_iter().filter(|need| subject.can(*need) == Can::Yes).collect();
        let dice = Dice::new(plan.seed, "stage");
        let stage = Stage::set(subject.clone(), &needs, dice, &Settings::default()).await?;
        let recorder = stage.recorder().clone();
        stage.server().listen(recorder.witness().clone());
        let began = recorder.began().as_nanos();
        let folder = std::env::temp_dir().join(format!("tidelock-storm-{}-{began}", std::process::id()));
        let registers = Registers::in_folder(&folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        let (over, is_over) = watch::channel(false);
        let field = Field {
            names: plan.names.clone().into(),
            registers: Arc::new(registers),
            recorder: recorder.clone(),
            ttl: subject.ttl(),
            is_over,
        };
        let (mut clients, mut processes) = (Vec::new(), Vec::new());
        for part in &plan.clients {
            let options = part.options(subject.ttl());
            recorder.lingers(options.linger);
            let locks = stage.server().connect(options).await?;
            clients.push(Client::new(locks, &part.label, recorder.clone()));
        }
        for (number, part) in (0..).zip(&plan.processes) {
            let options = Options::new().ttl(subject.ttl()).label(&part.label);
            let command = stage.server().program(options)?;
            processes.push(Process::start(command, &part.label, plan.seed, number, &folder)?);
        }
        for process in &processes {
            process.ready(READY).await?;
        }
        let outages: Arc<Mutex<Vec<Outage>>> = Arc::default();
        let (stumbles, slow) = (outages.clone(), stumble(subject.ttl()));
        let pulse = Pulse::start(recorder.clone(), slow, move |beat| {
            if let Beat::Stumbled(outage) = beat {
                stumbles.lock().unwrap_or_else(PoisonError::into_inner).push(outage);
            }
        });
        let pulse =
            pulse.map_err(|error| Failure::new(format!("cannot start a thread for the pulse: {error}")))?;
        let probe = tokio::spawn(probe(stage.watcher().clone(), recorder, slow, outages.clone()));
        Ok(Self {
            plan,
            stage,
            field,
            over,
            clients,
            processes,
            tasks: JoinSet::new(),
            outages,
            overlaps: Vec::new(),
            were_late: false,
            pulse: Some(pulse),
            probe,
            _folder: Folder(folder),
        })
    }

    async fn go(&mut self, lasts: Duration) -> Outcome {
        let began = Instant::now();
        for (client, part) in self.clients.iter().zip(&self.plan.clients) {
            let_loose(client, part, &self.field, &mut self.tasks);
        }
        for trouble in std::mem::take(&mut self.plan.troubles) {
            if began.elapsed() + trouble.pause >= lasts {
                break;
            }
            tokio::time::sleep(trouble.pause).await;
            self.befall(trouble).await?;
            self.look_for_failures()?;
        }
        tokio::time::sleep(lasts.saturating_sub(began.elapsed())).await;
        self.end().await
    }

    /// Starts the trouble, lets it last, and heals it.
    async fn befall(&mut self, trouble: Trouble) -> Outcome {
        let Trouble { fault, lasts, .. } = trouble;
        let from = self.now();
        let what = fault.to_string();
        let done = self.strike(&fault, lasts).await;
        self.stage.server().act(Act::Heal).await?;
        let to = self.now();
        self.were_late |= fault.holds_requests_up() && to.since(from) > self.stage.ttl();
        self.outages().push(Outage { from, to, what });
        if fault
            .mishaps()
            .iter()
            .any(|mishap| matches!(self.stage.subject().belief(*mishap), Belief::MayOverlap(_)))
        {
            self.overlaps.push((from, to + AFTERMATH));
        }
        done
    }

    async fn strike(&mut self, fault: &Fault, lasts: Duration) -> Outcome {
        match fault {
            Fault::Act(act) => {
                self.stage.server().act(act.clone()).await?;
                tokio::time::sleep(lasts).await;
            }
            Fault::Kill(number) => self.processes[*number].kill()?,
            Fault::Stop(number) if self.processes[*number].was_killed() => {}
            Fault::Stop(number) => {
                self.processes[*number].stop()?;
                tokio::time::sleep(lasts).await;
                self.processes[*number].go_on()?;
            }
            Fault::Evict(name, count) => self.evict(name, *count).await,
        }
        Ok(())
    }

    /// An error of the server is no failure: it may have a fault.
    async fn evict(&self, name: &str, count: usize) {
        let operator = self.stage.watcher();
        let Ok(line) = operator.line(name).await else { return };
        for claim in line.claims.iter().take(count) {
            let id = claim.id.to_string().into();
            self.field.recorder.note_for_all(EventKind::Evicted { id });
            let _ = operator.locks().evict(name, claim.id).await; // gone, or unknown: either is excused
        }
    }

    fn look_for_failures(&mut self) -> Outcome {
        while let Some(done) = self.tasks.try_join_next() {
            done??;
        }
        Ok(())
    }

    async fn end(&mut self) -> Outcome {
        self.over.send_replace(true);
        self.processes.iter_mut().for_each(Process::end);
        let bound = self.stage.ttl() * 4 + END;
        let began = Instant::now();
        while !self.tasks.is_empty() {
            let left = bound.saturating_sub(began.elapsed());
            let Ok(done) = tokio::time::timeout(left, self.tasks.join_next()).await else {
                let names = self.stuck();
                return Err(Failure::new(format!(
                    "{} tasks did not end within {bound:?} after everything was healed{names}",
                    self.tasks.len()
                )));
            };
            done.transpose()?.transpose()?;
        }
        for process in &self.processes {
            process.ended(bound).await?;
        }
        for client in std::mem::take(&mut self.clients) {
            client.locks().close_within(bound).await?;
        }
        if self.stage.subject().can(Ability::Cut) == Can::Yes {
            // The server keeps a connection that died silently for hours.
            self.stage.server().act(Act::Cut(Whom::Everyone)).await?;
        }
        self.stage.end().await?;
        self.nothing_is_left().await
    }

    /// Some of the claims that have no answer.
    fn stuck(&self) -> String {
        let mut open: Vec<Event> = Vec::new();
        for event in self.field.recorder.events() {
            match event.what {
                EventKind::Asked { .. } => open.push(event),
                EventKind::Granted { .. } | EventKind::Refused | EventKind::Failed | EventKind::Cancelled => {
                    open.retain(|other| other.claim != event.claim);
                }
                _ => {}
            }
        }
        let few = open.iter().take(3);
        few.map(|event| format!("; {} {} for {:?}", event.who, event.what.sentence(), event.name)).collect()
    }

    /// Allows one second, and one ttl more if clients have died or a claim may belong to no client.
    async fn nothing_is_left(&self) -> Outcome {
        if self.stage.subject().can(Ability::Leftovers) != Can::Yes {
            return Ok(());
        }
        let have_died = self.processes.iter().any(Process::was_killed) || !self.overlaps.is_empty();
        let are_dead = have_died || self.were_late;
        let lifetime = if are_dead { self.stage.ttl() * 11 / 10 } else { Duration::ZERO };
        let within = Duration::from_secs(1) + lifetime;
        let none = async || self.stage.server().leftovers().await.is_ok_and(|left| left.is_empty());
        if self.stage.until(within, "nothing is left", none).await.is_err() {
            if are_dead {
                self.stage.end().await?; // the next claims take dead ones out of the line
                let _ = self.stage.until(Duration::from_secs(1), "nothing is left", none).await;
            }
            let left = self.stage.server().leftovers().await?;
            ensure!(left.is_empty(), "this is left after {within:?}: {}", left.join("; "));
        }
        Ok(())
    }

    /// All events, of all processes.
    fn tell(mut self) -> Vec<Event> {
        self.probe.abort();
        drop(self.pulse.take());
        let began = self.field.recorder.began();
        let outages = std::mem::take(&mut *self.outages());
        let mut story = Story { events: self.field.recorder.events(), outages, overlaps: self.overlaps };
        for process in self.processes {
            process.tell(&mut story, began);
        }
        story.tell(began)
    }

    fn now(&self) -> Moment {
        self.field.recorder.now()
    }

    fn outages(&self) -> std::sync::MutexGuard<'_, Vec<Outage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks all the time, over the watcher's own connection, whether the server answers. A server that is busy with
/// something else can have the effects of a fault.
async fn probe(watcher: Client, recorder: Arc<Recorder>, slow: Duration, outages: Arc<Mutex<Vec<Outage>>>) {
    loop {
        let from = recorder.now();
        let _ = watcher.locks().ping().await; // an error is an answer too
        let to = recorder.now();
        let took = to.since(from);
        if took > slow {
            let what = format!("the server took {took:?} to answer");
            outages.lock().unwrap_or_else(PoisonError::into_inner).push(Outage { from, to, what });
        }
        tokio::time::sleep(PROBE).await;
    }
}
