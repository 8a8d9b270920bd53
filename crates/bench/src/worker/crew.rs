//! Some workers, as their parent sees them.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

use super::task::WorkerTask;
use crate::Result;

/// Some workers with the same task.
#[derive(Debug)]
pub(crate) struct Crew(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    process: Child,
    /// Closed before the parent waits for the process, which ends it.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
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
    pub(crate) fn step<A>(&mut self) -> Result<Vec<A>>
    where
        A: FromStr<Err: Into<Box<dyn Error + Send + Sync>>>,
    {
        for worker in &mut self.0 {
            worker.order()?;
        }
        self.0.iter_mut().map(|worker| worker.answer()?.parse().map_err(Into::into)).collect()
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
