//! The cost of Tidelock's locks on a backend, compared with the store's bare commands in the same run.
//!
//! Each scenario runs both sides in turn, slice by slice: bare, ours, bare, ours. Other load on the machine affects
//! both sides, so the ratios are steadier than the times. A figure is the median of its slices, with its spread beside
//! it. Counts come from a separate run that is not timed.
//!
//! Each backend has a program of its own: a [`Subject`], and a `main` that gives it to [`main`]. If its store is a
//! server, the subject is a [`Remote`], and the program has only the [`Site`].

mod bare_hand_off;
mod count;
mod counter;
mod crowd;
mod effort;
mod exclusion;
mod figure;
mod flags;
mod json;
mod latency;
mod ours;
mod place;
mod rate;
mod remote;
mod report;
mod resident;
mod result;
mod scenario;
mod site;
mod slices;
mod standing;
mod subject;
mod table;
mod tokio_mutex;
mod waits;
mod worker;

use std::process::ExitCode;

pub use crate::bare_hand_off::{BareHandOff, Signaller, Waiters};
pub use crate::count::Counts;
pub use crate::exclusion::Exclusion;
use crate::flags::Flags;
pub use crate::place::Place;
pub use crate::remote::Remote;
use crate::report::Report;
pub use crate::result::Result;
use crate::scenario::SCENARIOS;
pub use crate::site::Site;
pub use crate::subject::{Load, Stock, Subject, Twin};
pub use crate::tokio_mutex::TokioMutex;

/// What a program of the benchmark does: measures what is opened at the place that the command line names.
#[must_use]
pub fn main<S: Subject>(open: impl AsyncFnOnce(Place) -> Result<S>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(dispatch(open)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn dispatch<S: Subject>(open: impl AsyncFnOnce(Place) -> Result<S>) -> Result<()> {
    let flags = Flags::read()?;
    if flags.help {
        print!("{}", flags::HELP);
        return Ok(());
    }
    act(&open(flags.place()).await?, &flags).await
}

async fn act<S: Subject>(subject: &S, flags: &Flags) -> Result<()> {
    if let Some(task) = &flags.worker {
        return worker::run(subject, task).await;
    }
    let mut report = Report::new(subject, flags.slices, flags.short);
    println!("{}", table::head(&report));
    let wanted: Vec<_> = SCENARIOS.iter().filter(|name| flags.wants(name)).collect();
    for (number, name) in (1..).zip(&wanted) {
        counter::show(number, wanted.len(), name);
        let section = scenario::run(name, subject, &flags.plan()).await;
        let cleaned = subject.clean().await;
        counter::clear();
        let section = section?;
        cleaned?;
        println!("{}", table::section(&section));
        report.sections.push(section);
    }
    match &flags.json {
        Some(file) => json::write(&report, file),
        None => Ok(()),
    }
}
