//! The cost of Tidelock's locks on a backend, compared with the store's bare commands in the same run.
//!
//! Each scenario runs both sides in turn, slice by slice: bare, ours, bare, ours. Other load on the machine affects
//! both sides, so the ratios are steadier than the times. A figure is the median of its slices, with its spread beside
//! it. Counts come from a separate run that is not timed.

mod baton;
mod count;
mod crowd;
mod effort;
mod exclusion;
mod figure;
mod flags;
mod json;
mod latency;
mod memory;
mod ours;
mod rate;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod resident;
mod scenario;
mod slices;
mod subject;
mod table;
mod worker;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::process::ExitCode;

use crate::flags::Flags;
use crate::memory::Memory;
use crate::report::Report;
use crate::scenario::SCENARIOS;
use crate::subject::Subject;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> ExitCode {
    match dispatch().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn dispatch() -> Result<()> {
    let flags = Flags::read()?;
    if flags.help {
        print!("{}", flags::HELP);
        return Ok(());
    }
    match (flags.backend.as_str(), &flags.url) {
        ("memory", None) => act(&Memory::new(), &flags).await,
        ("memory", Some(_)) => Err("the memory backend is inside this process: leave out --url".into()),
        #[cfg(feature = "redis")]
        ("redis", Some(url)) => act(&redis::Redis::open(url, &flags.namespace).await?, &flags).await,
        #[cfg(feature = "redis")]
        ("redis", None) => Err("redis needs a server, for instance `--url redis://127.0.0.1:6379`".into()),
        #[cfg(not(feature = "redis"))]
        ("redis", _) => Err("this program was built without redis: build it with `--features redis`".into()),
        #[cfg(feature = "zookeeper")]
        ("zookeeper", Some(url)) => {
            act(&zookeeper::ZooKeeper::open(url, &flags.namespace).await?, &flags).await
        }
        #[cfg(feature = "zookeeper")]
        ("zookeeper", None) => {
            Err("zookeeper needs a server, for instance `--url zookeeper://127.0.0.1:2181`".into())
        }
        #[cfg(not(feature = "zookeeper"))]
        ("zookeeper", _) => {
            Err("this program was built without zookeeper: build it with `--features zookeeper`".into())
        }
        (other, _) => {
            Err(format!("there is no backend `{other}` to measure; there are: memory, redis, zookeeper")
                .into())
        }
    }
}

async fn act<S: Subject>(subject: &S, flags: &Flags) -> Result<()> {
    if let Some(errand) = &flags.worker {
        return worker::run(subject, errand).await;
    }
    let mut report = Report::new(subject, flags);
    println!("{}", table::head(&report));
    for name in SCENARIOS.iter().filter(|name| flags.wants(name)) {
        let section = scenario::run(name, subject, &flags.plan()).await;
        let cleaned = subject.clean().await;
        let section = section?;
        cleaned?;
        println!("{}", table::section(&section, &report));
        report.sections.push(section);
    }
    match &flags.json {
        Some(file) => json::write(&report, file),
        None => Ok(()),
    }
}
