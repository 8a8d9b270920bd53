//! The tasks of one client, which carry out their steps until they are told to stop.
//!
//! Errors are expected in a storm: an error is a failure only if none of the faults can explain it.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::plan::Part;
use super::register::Registers;
use super::step::{Action, End, How, Step, Taking};
use super::used_name::{Usage, UsedName};
use crate::failure::{Failure, Outcome};
use crate::history::Recorder;
use crate::{Client, Hold, Want};

/// The pause of a task after an error that came at once. Without it, it would only count errors.
const AFTER_TROUBLE: Duration = Duration::from_millis(5);

/// What the tasks of one process share.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) names: Arc<[UsedName]>,
    pub(super) registers: Arc<Registers>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) ttl: Duration,
    /// Whether the round is over.
    pub(super) is_over: watch::Receiver<bool>,
}

/// One task of a client.
#[derive(Clone, Debug)]
struct Player {
    client: Client,
    field: Field,
}

/// Starts all tasks of a client.
pub(super) fn let_loose(client: &Client, part: &Part, field: &Field, tasks: &mut JoinSet<Outcome>) {
    for task in 0..part.tasks {
        let player = Player { client: client.clone(), field: field.clone() };
        let mut steps = part.steps(task, &field.names, field.ttl);
        tasks.spawn(async move {
            while !*player.field.is_over.borrow() {
                let Some(step) = steps.next() else { break };
                player.carry_out(step).await?;
            }
            Ok(())
        });
    }
}

impl Player {
    async fn carry_out(&self, step: Step) -> Outcome {
        let Step { rest, name, action } = step;
        self.rest(rest).await;
        let used_name = &self.field.names[name];
        match action {
            Action::Take(taking) => self.take(used_name, taking).await,
            Action::Burst { takings, after } => self.burst(used_name, takings, after).await,
            Action::Resize(to) => {
                let resized = self.client.resize(&used_name.name, to).await;
                resized.or_else(|error| excuse(used_name.usage, &error))
            }
        }
    }

    async fn burst(&self, used_name: &UsedName, takings: Vec<Taking>, after: Duration) -> Outcome {
        let mut tasks = JoinSet::new();
        for taking in takings {
            let (player, used_name) = (self.clone(), used_name.clone());
            tasks.spawn(async move { player.take(&used_name, taking).await });
        }
        self.rest(after).await;
        while let Some(done) = tasks.try_join_next() {
            done??;
        }
        Ok(()) // the remaining ones are dropped with the set of tasks
    }

    async fn take(&self, used_name: &UsedName, taking: Taking) -> Outcome {
        let taken = match self.ask(&used_name.name, taking.want, taking.how).await {
            Ok(taken) => taken,
            Err(error) => {
                tokio::time::sleep(AFTER_TROUBLE).await;
                return excuse(used_name.usage, &error);
            }
        };
        let Some(mut hold) = taken else { return Ok(()) };
        self.write(&hold, taking.want).await?;
        self.rest(taking.keep).await;
        self.write(&hold, taking.want).await?;
        if taking.end == End::Downgrade && taking.want == Want::Write {
            hold = match hold.downgrade().await {
                Ok(hold) => hold,
                Err(error) => return excuse(used_name.usage, &error),
            };
            self.rest(taking.keep).await;
        }
        match taking.end {
            End::Drop => drop(hold),
            _ => hold.release().await.or_else(|error| excuse(used_name.usage, &error))?,
        }
        Ok(())
    }

    async fn ask(&self, name: &str, want: Want, how: How) -> tidelock_core::Result<Option<Hold>> {
        let client = &self.client;
        match how {
            How::Wait => client.take(name, want).await.map(Some),
            How::Try => client.try_take(name, want).await,
            How::Within(patience) => client.take_within(name, want, patience).await,
            How::Drop(after) => {
                let taking = tokio::time::timeout(after, client.take(name, want));
                taking.await.map_or(Ok(None), |taken| taken.map(Some))
            }
            How::DropAfter(polls) => tokio::select! {
                biased;
                taken = client.take(name, want) => taken.map(Some),
                () = yields(polls) => Ok(None),
            },
        }
    }

    /// An exclusive holder writes.
    async fn write(&self, hold: &Hold, want: Want) -> Outcome {
        if !matches!(want, Want::Lock | Want::Write) {
            return Ok(());
        }
        let trouble = |error| Failure::new(format!("cannot write a register: {error}"));
        self.field.registers.write(&self.field.recorder, hold).await.map_err(trouble)
    }

    /// Rests, but no longer than the storm lasts.
    async fn rest(&self, rest: Duration) {
        let mut is_over = self.field.is_over.clone();
        let over = is_over.wait_for(|is_over| *is_over);
        let _ = tokio::time::timeout(rest, over).await; // whichever comes first
    }
}

/// Whether the faults of storms, or the way the name is used, explain an error.
fn excuse(usage: Usage, error: &Error) -> Outcome {
    let is_explained = match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Lost | ErrorKind::Closed => true,
        ErrorKind::KindMismatch => usage.is_of_many_kinds(),
        ErrorKind::Conflict | ErrorKind::InvalidPermits => usage.is_of_many_sizes(),
        _ => false,
    };
    match is_explained {
        true => Ok(()),
        false => Err(Failure::new(format!("no fault explains this error: {error}"))),
    }
}

async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}
