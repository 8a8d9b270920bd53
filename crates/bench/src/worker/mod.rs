//! A process that a scenario starts. It carries out its task, one step for each command.
//!
//! It prints `ready` when it can begin. For each input line `go` it does a step and answers with a line. It ends when
//! its input ends, so a parent that dies takes its workers along.
//!
//! A step of a contending worker is a slice, and the answer is its pairs per second; a crowd's answer is its [`Waits`].
//! The first step of a holding worker takes all of its names, and the answer is the growth of this process in bytes.
//! The answer of each later step is the number of its names that it has lost. A step of standing workers lets all
//! tasks stand, and the answer is the growth of this process in bytes for each.

mod crew;
mod task;

use std::fmt::Display;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Locks;

pub(crate) use self::crew::Crew;
pub(crate) use self::task::WorkerTask;
use crate::Result;
use crate::crowd::Crowd;
use crate::exclusion::Exclusion;
use crate::ours::{self, Ours};
use crate::rate::pairs_per_second;
use crate::resident::resident;
use crate::standing::resident_of_each;
use crate::subject::Subject;
use crate::tokio_mutex::TokioMutex;
use crate::waits::Waits;

/// Enough time to give back all names of a holding worker.
const CLOSING: Duration = Duration::from_secs(60);

/// Runs a worker until its input ends.
pub(crate) async fn run<S: Subject>(subject: &S, task: &WorkerTask) -> Result<()> {
    let clients = ours::clients(subject, 1, task.linger()).await?;
    let ours = async |name: &str| -> Result<Ours> {
        let ours = Ours::new(&clients[0], name)?;
        ours.give_back(ours.take().await?).await?; // opens the session
        Ok(ours)
    };
    match task {
        WorkerTask::Contend { name, slice } => {
            let ours = [ours(name).await?];
            answer_each(async || pairs_per_second(&ours, *slice).await).await?;
        }
        WorkerTask::Crowd { name, tasks, section, slice, .. } => {
            let ours = ours(name).await?;
            answer_each(async || Waits::in_slice(&ours, *tasks, *section, *slice).await).await?;
        }
        WorkerTask::Hold { names } => hold(&clients[0], *names).await?,
        WorkerTask::Stand { tasks, .. } => {
            let ours = ours("bench:stand").await?;
            answer_each(async || resident_of_each(&ours, *tasks).await).await?;
        }
        WorkerTask::StandBare { tasks } => {
            answer_each(async || resident_of_each(&TokioMutex::default(), *tasks).await).await?;
        }
    }
    ours::close(clients).await
}

/// Does a step for each command, and answers with what it found.
async fn answer_each<A: Display>(mut step: impl AsyncFnMut() -> Result<A>) -> Result<()> {
    say("ready")?;
    // This blocks a thread where nothing else runs: the runtime's workers continue.
    for _go in std::io::stdin().lock().lines() {
        say(&step().await?.to_string())?;
    }
    Ok(())
}

async fn hold(client: &Arc<dyn Locks>, names: usize) -> Result<()> {
    Crowd::take(client, "bench:warm", 1).await?.give_back().await?;
    say("ready")?;
    let mut orders = std::io::stdin().lock().lines();
    if orders.next().is_none() {
        return Ok(());
    }
    let before = resident()?;
    let crowd = Crowd::take(client, "bench:held", names).await?;
    say(&(resident()? - before).to_string())?;
    for _go in orders {
        say(&crowd.lost().to_string())?;
    }
    drop(crowd); // a worker with so many names gives them back by ending
    Ok(client.close_within(CLOSING).await?)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
