//! A sale whose buyers all stand in line when it begins. Each is a task of its own of one client.
//!
//! With linger they stand in a local line, which the store does not see. At linger zero each has a claim of its own, so
//! there the crowd is a hundredth. The memory of a waiter is measured in a process of its own ([`crate::worker`]), on
//! any store: a local waiter costs the same on all of them.

use std::time::Instant;

use tokio::task::JoinSet;

use super::plan::Plan;
use super::sale::{IN_STOCK, check};
use super::till::{Locked, Till};
use crate::Result;
use crate::exclusion::Exclusion;
use crate::figure::Unit;
use crate::ours::{self, Ours, STRICT};
use crate::report::Row;
use crate::slices::turns;
use crate::subject::Subject;
use crate::worker::{Crew, WorkerTask};

/// Who buys at linger zero: one of so many.
const FEWER: usize = 100;
const NAME: &str = "bench:rush";

/// The rows, and what a reader must know about them.
pub(super) async fn measure<S: Subject>(subject: &S, plan: &Plan) -> Result<(Vec<Row>, Vec<String>)> {
    let mut rows = sales(subject, plan).await?;
    let (memory, note) = memory_of_each(subject, plan)?;
    rows.push(memory);
    let sold = format!(
        "All buyers of a rush are tasks of one client, and stand in line when it begins; exactly {IN_STOCK} of them got \
         one. The rush of {} was run once.",
        plan.buyers
    );
    Ok((rows, vec![sold, note]))
}

async fn sales<S: Subject>(subject: &S, plan: &Plan) -> Result<Vec<Row>> {
    let strict = ours::clients(subject, 1, STRICT).await?;
    let lingering = ours::clients(subject, 1, plan.linger).await?;
    let (strict_lock, lock) = (Ours::new(&strict[0], NAME)?, Ours::new(&lingering[0], NAME)?);
    let fewer = plan.buyers / FEWER;
    let both = async || Ok((rush(subject, &strict_lock, fewer).await?, rush(subject, &lock, fewer).await?));
    let (bare, ours): (Vec<f64>, Vec<f64>) = turns(plan.slices, both).await?.into_iter().unzip();
    let whole = rush(subject, &lock, plan.buyers).await?;
    ours::close(strict).await?;
    ours::close(lingering).await?;
    let row = |buyers: usize| Row::new(format!("rush of {buyers} buyers"), Unit::Time);
    Ok(vec![row(fewer).ours(ours).bare(bare), row(plan.buyers).ours([whole])])
}

/// The seconds from the moment when the first of them may buy until the last one has.
async fn rush<S: Subject>(subject: &S, lock: &Ours, buyers: usize) -> Result<f64> {
    let till = Locked { lock: lock.clone(), stock: subject.stock(IN_STOCK).await? };
    let held = lock.take().await?;
    let mut buying = JoinSet::new();
    for _ in 0..buyers {
        let till = till.clone();
        buying.spawn(async move { till.sell().await });
    }
    lock.stand(buyers + 1).await?;
    let (began, mut sold) = (Instant::now(), 0);
    lock.give_back(held).await?;
    while let Some(done) = buying.join_next().await {
        sold += usize::from(done??);
    }
    let seconds = began.elapsed().as_secs_f64();
    check(&till.stock, sold).await?;
    Ok(seconds)
}

/// The memory of a local waiter with its task, beside a task that waits for tokio's own mutex.
fn memory_of_each<S: Subject>(subject: &S, plan: &Plan) -> Result<(Row, String)> {
    let flags = subject.flags().unwrap_or_default(); // where no other process reaches this store, its own will do
    let (tasks, linger) = (plan.buyers, plan.linger);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..plan.slices {
        bare.push(answer(&flags, &WorkerTask::StandBare { tasks })?);
        ours.push(answer(&flags, &WorkerTask::Stand { tasks, linger })?);
    }
    let called = format!("{tasks} tasks in line, memory of each, beside tokio::sync::Mutex");
    let row = Row::new(called, Unit::Bytes).ours(ours).bare(bare);
    let more = row.ours.as_ref().zip(row.bare.as_ref()).map_or(0.0, |(ours, bare)| ours.median - bare.median);
    let note = format!(
        "The twin of the memory is as many tasks that wait for tokio::sync::Mutex. A task in Tidelock's local line has \
         {more:.0} bytes more than such a task."
    );
    Ok((row, note))
}

/// What a new process with this task answers.
fn answer(flags: &[String], task: &WorkerTask) -> Result<f64> {
    let mut crew = Crew::start(flags, task, 1)?;
    let answer: f64 = crew.step()?.iter().sum();
    crew.end()?;
    Ok(answer)
}
