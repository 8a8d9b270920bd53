//! A process of `procs` or `held`. It carries out its task, one step for each command.
//!
//! It prints `ready` when it has been served once. For each input line `go` it does a step and answers with a number.
//! It ends when its input ends, so a parent that dies takes its workers along. A step of a contending worker is a
//! slice, and the answer is its pairs per second. The first step of a holding worker takes all of its names, and the
//! answer is the growth of this process in bytes. The answer of each later step is the number of its names that it has
//! lost.
//! process has grown by; each later one answers how many of the names it has lost.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Locks;

use crate::Result;
use crate::crowd::Crowd;
use crate::exclusion::Exclusion;
use crate::ours::{self, Ours, STRICT};
use crate::rate::pairs_per_second;
use crate::resident::resident;
use crate::subject::Subject;

/// Enough time to give back all names of a holding worker.
const CLOSING: Duration = Duration::from_secs(60);

/// The task of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerTask {
    /// Contends for one name, a slice at a time.
    Contend { name: String, slice: Duration },
    /// Holds this many names, all the time.
    Hold { names: usize },
}

/// Some workers, as their parent sees them.
#[derive(Debug)]
pub(crate) struct Crew(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    process: Child,
    /// Closed before the parent waits for the process, which ends it.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Runs a worker until its input ends.
pub(crate) async fn run<S: Subject>(subject: &S, task: &WorkerTask) -> Result<()> {
    let clients = ours::clients(subject, 1, STRICT).await?;
    match task {
        WorkerTask::Contend { name, slice } => contend(Ours::new(&clients[0], name)?, *slice).await?,
        WorkerTask::Hold { names } => hold(&clients[0], *names).await?,
    }
    ours::close(clients).await
}

async fn contend(ours: Ours, slice: Duration) -> Result<()> {
    let ours = [ours];
    ours[0].give_back(ours[0].take().await?).await?;
    say("ready")?;
    // This blocks a thread where nothing else runs: the runtime's workers continue.
    for _go in std::io::stdin().lock().lines() {
        say(&pairs_per_second(&ours, slice).await?.to_string())?;
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

impl Crew {
    /// Starts this many workers; they are ready when this returns.
    pub(crate) fn start(flags: &[String], task: &WorkerTask, count: usize) -> Result<Self> {
        let mut crew = Self((0..count).map(|_| Worker::start(flags, task)).collect::<Result<_>>()?);
        for worker in &mut crew.0 {
            match worker.answer()?.as_str() {
                "ready" => {}
                other => return Err(format!("a worker printed `{other}` and not `ready`").into()),
            }
        }
        Ok(crew)
    }

    /// Runs one step of all workers together, and returns their answers.
    pub(crate) fn step(&mut self) -> Result<Vec<f64>> {
        for worker in &mut self.0 {
            worker.order()?;
        }
        self.0.iter_mut().map(|worker| Ok(worker.answer()?.parse()?)).collect()
    }

    /// Lets the workers end, and waits for that.
    pub(crate) fn end(mut self) -> Result<()> {
        for worker in &mut self.0 {
            worker.orders = None;
            let status = worker.process.wait()?;
            if !status.success() {
                return Err(format!("a worker failed ({status})").into());
            }
        }
        Ok(())
    }
}

impl Worker {
    fn start(flags: &[String], task: &WorkerTask) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(flags).args(["--worker", &task.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(process.stdout.take().ok_or("a worker's standard output is missing")?);
        Ok(Self { orders: process.stdin.take(), process, answers })
    }

    fn order(&mut self) -> Result<()> {
        let orders = self.orders.as_mut().ok_or("a worker's standard input is closed")?;
        Ok(orders.write_all(b"go\n")?)
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a worker ended without an answer".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl WorkerTask {
    /// `contend 300 bench:procs`: milliseconds and a name; or `hold 1000`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["contend", millis, name] => {
                Ok(Self::Contend { name: name.to_owned(), slice: Duration::from_millis(millis.parse()?) })
            }
            ["hold", names] => Ok(Self::Hold { names: names.parse()? }),
            _ => Err("a worker's task is `contend MILLISECONDS NAME` or `hold NAMES`".into()),
        }
    }
}

impl fmt::Display for WorkerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contend { name, slice } => write!(f, "contend {} {name}", slice.as_millis()),
            Self::Hold { names } => write!(f, "hold {names}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_is_understood_as_it_was_meant() {
        let contend = WorkerTask::Contend { name: "bench:procs".into(), slice: Duration::from_millis(300) };
        for task in [contend, WorkerTask::Hold { names: 1_000 }] {
            assert_eq!(WorkerTask::parse(&task.to_string()).unwrap(), task);
        }
        assert!(WorkerTask::parse("soon").is_err());
    }
}
