//! Plays a plan, and judges what happened.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_core::Locks;
use tidelock_core::backend::Sleep;
use tidelock_history::{Event, EventKind, History, Violation};
use tokio::runtime::{Builder, Handle, RngSeed};
use tokio::task::JoinSet;

use crate::machines::Machines;
use crate::medium::Medium;
use crate::network::Network;
use crate::plan::{Part, Plan, Step, Stores, ms};
use crate::player::{Client, Field, Player};
use crate::record::{Finding, Record};
use crate::redis::Servers;
use crate::time::{ClientClock, Time, lock};

/// How often everything that goes on is looked at, as a part of the ttl.
const LOOKS: u32 = 20;

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) history: History,
    /// What it broke, the first thing first.
    pub(crate) findings: Vec<Finding>,
    /// The part of the history that shows the first finding, if the checker of histories found it.
    pub(crate) violation: Option<Violation>,
    /// How long all of its clients have lived.
    pub(crate) lived: Duration,
}

/// Plays a plan in this thread.
pub(crate) fn play(plan: &Plan) -> Outcome {
    let time = Time::new(plan.seed);
    let longest_ttl = plan.longest_ttl();
    let record = Record::new(time.clone(), plan);
    let _entered = tidelock_core::simulation::enter(time.clock(), plan.seed);
    let played = catch_unwind(AssertUnwindSafe(|| play_to_the_end(plan, &time, &record, longest_ttl)));
    if let Err(panic) = played {
        record.found("panics", format!("it panicked: {}", text_of(&*panic)));
    }
    let lived = time.age() * u32::try_from(plan.clients.len()).unwrap_or(1);
    let (events, mut findings) = record.take();
    let history = history(plan, events, longest_ttl);
    let violation = history.check().into_iter().min_by_key(|violation| violation.to);
    if let Some(violation) = &violation {
        let check = word_of(violation);
        findings.insert(0, Finding { check, sentence: violation.sentence.clone(), after: violation.to + 1 });
    }
    Outcome { history, findings, violation, lived }
}

fn history(plan: &Plan, events: Vec<Event>, longest_ttl: Duration) -> History {
    History {
        backend: "simulation".into(),
        trial: format!("world {}", plan.seed),
        seed: plan.seed,
        ttl: longest_ttl,
        linger: plan.longest_linger(),
        bound: Duration::MAX, // the record judges it, and knows more
        events,
    }
}

fn word_of(violation: &Violation) -> &'static str {
    use tidelock_history::Promise;
    match violation.promise {
        Promise::Exclusion => "exclusion",
        Promise::Order => "order",
        Promise::Tokens => "tokens",
        Promise::Sizes => "sizes",
        Promise::Usable => "usable",
        _ => "history",
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn play_to_the_end(plan: &Plan, time: &Arc<Time>, record: &Arc<Record>, longest_ttl: Duration) {
    let (turning, machines) = (time.clone(), Machines::new(time.clock()));
    let mut builder = Builder::new_current_thread();
    builder.rng_seed(RngSeed::from_bytes(&plan.seed.to_le_bytes())).on_thread_park(move || turning.turn());
    if plan.stores != Stores::Memory {
        hook(&mut builder, &machines); // this backend has timers of its own
    }
    let runtime = builder.build().expect("a runtime without a driver can be built");
    runtime.block_on(async {
        let world = World {
            plan: plan.clone(),
            time: time.clone(),
            record: record.clone(),
            machines,
            longest_ttl,
            is_over: Arc::default(),
        };
        let is_over = world.is_over.clone();
        let playing = tokio::spawn(world.play());
        let ended = time.until(|| playing.is_finished()).await;
        is_over.store(true, Ordering::Relaxed);
        if !ended {
            record.found("ends", "the world stands still, and not all of its tasks are done".into());
            playing.abort();
        } else if let Err(panic) = playing.await {
            record.found("panics", panic.to_string());
        }
    });
    drop(runtime);
    time.forget_events(); // last, because what ends with the runtime enters some
}

/// Each task runs on the machine of its client.
fn hook(builder: &mut Builder, machines: &Arc<Machines>) {
    let [spawned, begun, resting, ended] = [(); 4].map(|()| machines.clone());
    builder
        .on_task_spawn(move |task| spawned.spawns(task.id()))
        .on_before_task_poll(move |task| begun.begins(task.id()))
        .on_after_task_poll(move |_| resting.rests())
        .on_task_terminate(move |task| ended.ends(task.id()));
}

struct World {
    plan: Plan,
    time: Arc<Time>,
    record: Arc<Record>,
    machines: Arc<Machines>,
    longest_ttl: Duration,
    is_over: Arc<AtomicBool>,
}

impl World {
    async fn play(self) {
        let clocks = self.clocks();
        let clients = clocks.iter().enumerate().map(|(number, clock)| Client::new(number, clock.clone()));
        let clients = clients.collect();
        let medium: Arc<dyn Medium> = match self.plan.stores {
            Stores::Memory => Network::new(&self.plan, &self.time, &self.record, clocks),
            _ => Servers::new(&self.plan, &self.time, &self.record, clocks),
        };
        let field = Arc::new(Field {
            plan: self.plan.clone(),
            time: self.time.clone(),
            record: self.record.clone(),
            medium: medium.clone(),
            clients,
            handed_over: Mutex::default(),
        });
        self.enter_troubles(&medium);
        self.keep_looking(self.plan.ttl() / LOOKS);
        let mut tasks = self.begin(&field);
        self.wait_for(&mut tasks).await;
        drop(tasks);
        let mut handed_over = std::mem::take(&mut *lock(&field.handed_over));
        while handed_over.join_next().await.is_some() {}
        self.record.look();
        self.judge_local_lines();
        self.close(&field).await;
        drop(field);
        // What no close has taken out ends by itself; and what is under way to a server, when its deadline is over.
        let deadlines = self.plan.clients.iter().map(|part| ms(part.command_deadline));
        let under_way = deadlines.max().filter(|_| self.plan.stores != Stores::Memory).unwrap_or_default();
        self.pass((self.longest_ttl * 6 / 5).max(under_way) + ms(self.plan.delay) * 4).await;
        self.is_over.store(true, Ordering::Relaxed);
        self.judge_what_is_left(&medium);
    }

    /// The clocks of the clients, which the record and the machines know from now on.
    fn clocks(&self) -> Vec<Arc<ClientClock>> {
        let clock_of = |part: &Part| {
            let clock = self.time.client_clock(part.ppm);
            self.record.add_client(clock.clone(), part);
            self.machines.add(clock.clone());
            clock
        };
        self.plan.clients.iter().map(clock_of).collect()
    }

    fn enter_troubles(&self, medium: &Arc<dyn Medium>) {
        for (number, trouble) in self.plan.troubles.iter().enumerate() {
            let (begins, ends) =
                (self.time.at_age(ms(trouble.at)), self.time.at_age(ms(trouble.at + trouble.lasts)));
            let (wires, record, fault) = (medium.clone(), self.record.clone(), trouble.what.clone());
            self.time.at(begins, move || {
                record.fault(format!("{fault:?}"));
                wires.begin(number, &fault, ends);
            });
            let (wires, record) = (medium.clone(), self.record.clone());
            self.time.at(ends, move || {
                wires.end(number);
                record.healed();
            });
        }
    }

    /// Looks at everything that goes on, again and again.
    fn keep_looking(&self, pause: Duration) {
        look_again(&self.time, self.record.clone(), self.is_over.clone(), pause);
    }

    fn begin(&self, field: &Arc<Field>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for client in 0..self.plan.clients.len() {
            for task in 0..self.plan.tasks(client) {
                let is_its = |step: &&Step| step.client == client && step.task == task;
                let steps: Vec<Step> = self.plan.steps.iter().filter(is_its).cloned().collect();
                let player = Player { field: field.clone(), client };
                self.machines.on(client, || tasks.spawn(player.play(steps)));
            }
        }
        tasks
    }

    /// Everyone who waits gets on, so every task ends.
    async fn wait_for(&self, tasks: &mut JoinSet<()>) {
        let ends = ms(self.plan.ends).max(self.plan.healed());
        let tasks_in_line = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        let a_turn = if self.plan.are_pushes_reliable() { ms(100) } else { self.plan.ttl() / 2 };
        let bound = ends + self.longest_ttl * 4 + Duration::from_secs(30) + a_turn * tasks_in_line;
        let limit = Sleep::until(&self.time.clock(), self.time.at_age(bound));
        let all = async {
            while let Some(done) = tasks.join_next().await {
                if let Err(panic) = done {
                    self.record.found("panics", panic.to_string());
                }
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = limit => self.record.found("ends", format!("{bound:?} are over, and not all tasks are done")),
        }
    }

    /// Nobody asks for anything, and nobody holds anything.
    fn judge_local_lines(&self) {
        let left = tidelock_core::simulation::local_lines();
        if left > 0 {
            self.record.found("left", format!("{left} local lines are left"));
        }
    }

    /// Closes the clients that the plan closes, and drops the others.
    async fn close(&self, field: &Arc<Field>) {
        self.pass(self.plan.healed().saturating_sub(self.time.age())).await;
        let mut closes = JoinSet::new();
        for (number, (part, client)) in self.plan.clients.iter().zip(&field.clients).enumerate() {
            let locks = client.take();
            self.machines.on(number, || {
                if let Some(locks) = locks.filter(|_| part.is_closed) {
                    closes.spawn(close(locks, self.record.clone(), self.plan.ttl() * 2));
                }
            });
        }
        while closes.join_next().await.is_some() {}
    }

    async fn pass(&self, length: Duration) {
        let clock = self.time.clock();
        Sleep::until(&clock, clock.now() + length).await;
    }

    fn judge_what_is_left(&self, medium: &Arc<dyn Medium>) {
        let (names, sessions) = medium.left();
        if !names.is_empty() || sessions > 0 {
            let sentence = format!("the store still has {names:?} and {sessions} sessions");
            self.record.found("left", sentence);
        }
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks > 1 {
            self.record.found("left", format!("{} tasks of keepers are left", tasks - 1));
        }
        if self.time.has_alarms() {
            self.record.found("left", "an alarm is left".into());
        }
        if medium.has_sessions() {
            self.record.found("left", "a registry is left".into());
        }
    }
}

fn look_again(time: &Arc<Time>, record: Arc<Record>, is_over: Arc<AtomicBool>, pause: Duration) {
    if is_over.load(Ordering::Relaxed) {
        return;
    }
    record.look();
    let again = time.clone();
    time.after(pause, move || look_again(&again, record, is_over, pause));
}

async fn close(locks: Arc<dyn Locks>, record: Arc<Record>, within: Duration) {
    if let Err(error) = locks.close_within(within).await {
        record.found("close", format!("all is well, and a client cannot be closed: {error}"));
    }
    record.note(0, EventKind::Healed);
}
