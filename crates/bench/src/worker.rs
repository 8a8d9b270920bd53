//! A process of `procs`: it contends for one name, a slice at a time, on command.
//!
//! It says `ready` when it has held the name once; for each line `go` it contends for a slice and answers
//! `<pairs a second>`; at the end of its input it ends. So a parent that dies takes its workers along.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::exclusion::Exclusion;
use crate::ours::{self, Ours};
use crate::rate::pairs_per_second;
use crate::subject::Subject;

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    pub(crate) name: String,
    pub(crate) slice: Duration,
}

/// Some workers, as their parent has them.
#[derive(Debug)]
pub(crate) struct Crew(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    process: Child,
    /// Closed before the process is waited for: that ends it.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What a worker does until its input ends.
pub(crate) async fn run<S: Subject>(subject: &S, errand: &Errand) -> Result<()> {
    let clients = ours::clients(subject, 1).await?;
    let ours = [Ours::new(&clients[0], &errand.name)?];
    ours[0].give_back(ours[0].take().await?).await?;
    say("ready")?;
    // This waits on a thread where nothing else runs: the runtime's workers go on.
    for _go in std::io::stdin().lock().lines() {
        say(&pairs_per_second(&ours, errand.slice).await?.to_string())?;
    }
    ours::close(clients).await
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

impl Crew {
    /// Starts so many workers; they are ready when this returns.
    pub(crate) fn start(backend: &str, url: &str, errand: &Errand, count: usize) -> Result<Self> {
        let mut crew = Self((0..count).map(|_| Worker::start(backend, url, errand)).collect::<Result<_>>()?);
        for worker in &mut crew.0 {
            match worker.answer()?.as_str() {
                "ready" => {}
                other => return Err(format!("a worker said `{other}`, not that it is ready").into()),
            }
        }
        Ok(crew)
    }

    /// One slice of all together: pairs a second of each.
    pub(crate) fn slice(&mut self) -> Result<Vec<f64>> {
        for worker in &mut self.0 {
            worker.order()?;
        }
        self.0.iter_mut().map(|worker| Ok(worker.answer()?.parse()?)).collect()
    }

    /// Lets them end, and waits for it.
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
    fn start(backend: &str, url: &str, errand: &Errand) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--backend", backend, "--url", url, "--worker", &errand.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(process.stdout.take().ok_or("a worker has no output")?);
        Ok(Self { orders: process.stdin.take(), process, answers })
    }

    fn order(&mut self) -> Result<()> {
        let orders = self.orders.as_mut().ok_or("a worker takes no orders any more")?;
        Ok(orders.write_all(b"go\n")?)
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a worker has ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Errand {
    /// `300 bench:procs`: milliseconds and a name.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (millis, name) = text.split_once(' ').ok_or("a worker's errand is `MILLISECONDS NAME`")?;
        Ok(Self { name: name.to_owned(), slice: Duration::from_millis(millis.parse()?) })
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.slice.as_millis(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_is_understood_as_it_was_meant() {
        let errand = Errand { name: "bench:procs".into(), slice: Duration::from_millis(300) };
        assert_eq!(Errand::parse(&errand.to_string()).unwrap(), errand);
        assert!(Errand::parse("soon").is_err());
    }
}
