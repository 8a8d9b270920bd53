//! Points 13 and 9. Names are on several servers. When one server moves a name, or falls silent, only its own names
//! are affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_core::{Error, State};

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Client, Hold, Resource, Stage, Waiter, Want};

trials! {
    names_that_move_stay_locked: points [13, 1, 2, 8], lessons [], needs [Spread];
    a_crowd_goes_on_while_its_names_move: points [13, 1, 2], lessons [], needs [Spread];
    a_server_that_stands_still_delays_its_own_names_alone: points [9, 4, 13], lessons [3], needs [Spread, Pause];
    a_server_that_dies_delays_its_own_names_alone: points [9, 4, 13], lessons [3, 23], needs [Spread, Restart];
}

async fn names_that_move_stay_locked(stage: &Stage) -> Outcome {
    let ttl = stage.ttl() * 3;
    let options = || stage.options().ttl(ttl);
    let a = stage.client_with(0, options()).await?;
    let b = stage.client_with(1, options()).await?;
    let c = stage.client_with(2, options()).await?;
    let mut lines = Vec::new();
    for number in 0..6 {
        let name = format!("moving {number}");
        let hold = a.take(&name, Want::Lock).await?;
        let first = stage.waiter(&b, &name, Want::Lock).await?;
        let second = stage.waiter(&c, &name, Want::Lock).await?;
        lines.push((name, hold, first, second));
    }
    for (name, ..) in &lines {
        stage.act(Act::MoveName(name.clone())).await?;
    }
    for (name, hold, first, second) in lines {
        ensure!(hold.state() != State::Lost, "the hold of {name:?} was lost when it moved");
        ensure!(!first.is_done() && !second.is_done(), "{name:?} was granted while it was held");
        let before = hold.token();
        hold.release().await?;
        let next = stage.turn_within(ttl / 3, first).await?;
        ensure!(next.token() > before, "token {} was granted after token {before}", next.token());
        let before = next.token();
        next.release().await?;
        let next = stage.turn_within(ttl / 3, second).await?;
        ensure!(next.token() > before, "token {} was granted after token {before}", next.token());
        next.release().await?;
    }
    Ok(())
}

async fn a_crowd_goes_on_while_its_names_move(stage: &Stage) -> Outcome {
    let mut crowds = Vec::new();
    for want in Want::ALONE {
        let name = format!("moving {want}");
        let resource = Resource::new(stage.recorder(), &name);
        crowds.push(Arc::new(Crowd { name, want, resource, is_over: AtomicBool::new(false) }));
    }
    let mut tasks = Vec::new();
    for number in 0..3 {
        let client = stage.client_with(number, stage.options().ttl(stage.ttl() * 3)).await?;
        tasks.extend(crowds.iter().map(|crowd| tokio::spawn(crowd.clone().go_on(client.clone()))));
    }
    for crowd in crowds.iter().cycle().take(crowds.len() * 2) {
        stage.act(Act::MoveName(crowd.name.clone())).await?;
    }
    crowds.iter().for_each(|crowd| crowd.is_over.store(true, Ordering::Relaxed));
    let mut counted = 0;
    for task in tasks {
        counted += stage.drive(task).await??;
    }
    let seen: u64 = crowds.iter().map(|crowd| crowd.resource.counted()).sum();
    ensure!(seen == counted, "{counted} holders added one each, but the counter is {seen}");
    Ok(())
}

/// The clients that use a name while it moves.
struct Crowd {
    name: String,
    want: Want,
    resource: Resource,
    is_over: AtomicBool,
}

impl Crowd {
    /// Takes the name, counts, and gives it back, until the end and once more. Returns how often. Errors that allow a
    /// retry are retried: a name that is being moved is refused to every client.
    async fn go_on(self: Arc<Self>, client: Client) -> Outcome<u64> {
        let mut counted = 0;
        loop {
            let is_last = self.is_over.load(Ordering::Relaxed);
            let hold = loop {
                match client.take(&self.name, self.want).await {
                    Err(error) if error.can_retry() => {}
                    other => break other?,
                }
            };
            ensure!(
                self.resource.write(&hold),
                "the fence of {:?} refused a holder that still holds",
                self.name
            );
            self.resource.count(2).await;
            counted += 1;
            let released = hold.release().await;
            ensure!(
                released.as_ref().map_or_else(Error::can_retry, |()| true),
                "a release was reported as {released:?}"
            );
            if is_last {
                return Ok(counted);
            }
        }
    }
}

/// Names on one server, and names on others. One client holds each, and another waits for it.
struct Parted {
    holder: Client,
    waiter: Client,
    own: Vec<Line>,
    /// Passed on all the time.
    busy: Vec<Line>,
    /// Held all the time.
    kept: Vec<Line>,
}

type Line = (String, Hold, Waiter);

/// How many names there are of each sort.
const EACH: usize = 4;
/// When a name must be usable again after its server died: another server must take over first.
const TAKEN_OVER: Duration = Duration::from_secs(20);

impl Parted {
    /// The patience of waiters with a server that does not accept them.
    async fn new(stage: &Stage, patience: Duration) -> Outcome<Self> {
        let options = || stage.options().command_deadline(patience);
        let holder = stage.client_with(0, options()).await?;
        let waiter = stage.client_with(1, options()).await?;
        let mut parted = Self { holder, waiter, own: Vec::new(), busy: Vec::new(), kept: Vec::new() };
        let names: Vec<String> = (0..EACH * 20).map(|number| format!("name {number}")).collect();
        let homes = stage.server().homes(&names).await?;
        let (own, others): (Vec<_>, Vec<_>) =
            names.into_iter().zip(&homes).partition(|(_, home)| **home == homes[0]);
        let mut others = others.into_iter().map(|(name, _)| name);
        for (name, _) in own.into_iter().take(EACH) {
            parted.own.push(parted.line(stage, name).await?);
        }
        for name in others.by_ref().take(EACH) {
            parted.busy.push(parted.line(stage, name).await?);
        }
        for name in others.take(EACH) {
            parted.kept.push(parted.line(stage, name).await?);
        }
        ensure!(parted.kept.len() == EACH && parted.own.len() == EACH, "all names lie on one server");
        Ok(parted)
    }

    async fn line(&self, stage: &Stage, name: String) -> Outcome<Line> {
        let hold = stage.drive(self.holder.take(&name, Want::Lock)).await?;
        let waiting = stage.waiter(&self.waiter, &name, Want::Lock).await?;
        Ok((name, hold, waiting))
    }

    /// The others' names are held, given back, passed on and taken within their usual time.
    async fn others_go_on(&mut self, stage: &Stage) -> Outcome {
        let usual = stage.ttl() / 5;
        for (name, hold, waiting) in std::mem::take(&mut self.busy) {
            let asked = stage.now();
            let passing = stage.drive(async {
                hold.release().await?;
                waiting.hold().await?.release().await
            });
            passing.await?;
            self.busy.push(self.line(stage, name).await?);
            let took = stage.now().since(asked);
            ensure!(
                stage.is_in_time(asked, usual),
                "while another server is silent, a hand-off and an acquire took {took:?}"
            );
        }
        for (_, hold, waiting) in &self.kept {
            ensure!(hold.state() == State::Held, "{hold:?} is not renewed while another server is silent");
            ensure!(!waiting.is_done(), "{hold:?} was granted to another client too");
        }
        stage.pass(stage.ttl() / 50).await;
        Ok(())
    }

    /// The names of the silent server are lost in time, and no other client is granted them meanwhile.
    async fn own_are_lost(&mut self, stage: &Stage, within: Duration) -> Outcome {
        let silent = stage.now();
        loop {
            let passed = stage.now().since(silent); // before the look: the machine may stand still between the two
            if self.own.iter().all(|(_, hold, _)| hold.state() == State::Lost) {
                break;
            }
            ensure!(passed < within, "{passed:?} after its server fell silent, the guard is not lost");
            self.others_go_on(stage).await?;
        }
        ensure!(
            self.own.iter().all(|(.., waiting)| !waiting.is_done()),
            "a silent server has granted something"
        );
        Ok(())
    }

    /// The waiters for these names get their turn.
    async fn own_come_back(self, stage: &Stage, within: Duration) -> Outcome {
        for (_, hold, waiting) in self.own {
            let next = stage.turn_within(within, waiting).await?;
            ensure!(
                next.token() > hold.token(),
                "token {} was granted after token {}",
                next.token(),
                hold.token()
            );
            next.release().await?;
        }
        for (_, hold, waiting) in self.busy.into_iter().chain(self.kept) {
            hold.release().await?;
            stage.turn(waiting).await?.release().await?;
        }
        Ok(())
    }
}

async fn a_server_that_stands_still_delays_its_own_names_alone(stage: &Stage) -> Outcome {
    let mut parted = Parted::new(stage, stage.options().command_deadline).await?;
    let own = parted.own[0].0.clone();
    stage.act(Act::PauseHome(own)).await?;
    parted.own_are_lost(stage, stage.ttl() * 11 / 10).await?;
    stage.act(Act::Heal).await?;
    parted.own_come_back(stage, stage.ttl() * 11 / 10).await
}

async fn a_server_that_dies_delays_its_own_names_alone(stage: &Stage) -> Outcome {
    let mut parted = Parted::new(stage, TAKEN_OVER).await?;
    let own = parted.own[0].0.clone();
    stage.act(Act::KillHome(own)).await?;
    parted.own_are_lost(stage, stage.ttl() * 11 / 10).await?;
    let died = stage.now();
    while !parted.own.iter().all(|(.., waiting)| waiting.is_done()) {
        let passed = stage.now().since(died);
        ensure!(
            stage.is_in_time(died, TAKEN_OVER),
            "names are still unusable {passed:?} after their server died"
        );
        parted.others_go_on(stage).await?;
    }
    stage.act(Act::Heal).await?;
    parted.own_come_back(stage, Duration::ZERO).await
}
