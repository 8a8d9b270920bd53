//! A process of `procs` or `held`: it does its errand, a step at a time, on command.
//!
//! It says `ready` when it has been served once; for each line `go` it does a step and answers with a number; at the
//! end of its input it ends. So a parent that dies takes its workers along. A step of one that contends is a slice, and
//! answers its pairs a second. The first step of one that holds takes all of its names and answers how many bytes this
//! process has grown by; each later one answers how many of the names it has lost.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidelock::Locks;

use crate::Result;
use crate::crowd::Crowd;
use crate::exclusion::Exclusion;
use crate::ours::{self, Ours};
use crate::rate::pairs_per_second;
use crate::resident::resident;
use crate::subject::Subject;

/// Enough to give back all that one holds.
const CLOSING: Duration = Duration::from_secs(60);

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// For one name, a slice at a time.
    Contend { name: String, slice: Duration },
    /// So many names, all along.
    Hold { names: usize },
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
    match errand {
        Errand::Contend { name, slice } => contend(Ours::new(&clients[0], name)?, *slice).await?,
        Errand::Hold { names } => hold(&clients[0], *names).await?,
    }
    ours::close(clients).await
}

async fn contend(ours: Ours, slice: Duration) -> Result<()> {
    let ours = [ours];
    ours[0].give_back(ours[0].take().await?).await?;
    say("ready")?;
    // This waits on a thread where nothing else runs: the runtime's workers go on.
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
    drop(crowd); // whoever holds that many gives them back by ending
    Ok(client.close_within(CLOSING).await?)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

impl Crew {
    /// Starts so many workers; they are ready when this returns.
    pub(crate) fn start(flags: &[String], errand: &Errand, count: usize) -> Result<Self> {
        let mut crew = Self((0..count).map(|_| Worker::start(flags, errand)).collect::<Result<_>>()?);
        for worker in &mut crew.0 {
            match worker.answer()?.as_str() {
                "ready" => {}
                other => return Err(format!("a worker said `{other}`, not that it is ready").into()),
            }
        }
        Ok(crew)
    }

    /// One step of all together: what each answers.
    pub(crate) fn step(&mut self) -> Result<Vec<f64>> {
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
    fn start(flags: &[String], errand: &Errand) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(flags).args(["--worker", &errand.to_string()]);
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
    /// `contend 300 bench:procs`: milliseconds and a name; or `hold 1000`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["contend", millis, name] => {
                Ok(Self::Contend { name: name.to_owned(), slice: Duration::from_millis(millis.parse()?) })
            }
            ["hold", names] => Ok(Self::Hold { names: names.parse()? }),
            _ => Err("a worker's errand is `contend MILLISECONDS NAME` or `hold NAMES`".into()),
        }
    }
}

impl fmt::Display for Errand {
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
        let contend = Errand::Contend { name: "bench:procs".into(), slice: Duration::from_millis(300) };
        for errand in [contend, Errand::Hold { names: 1_000 }] {
            assert_eq!(Errand::parse(&errand.to_string()).unwrap(), errand);
        }
        assert!(Errand::parse("soon").is_err());
    }
}
