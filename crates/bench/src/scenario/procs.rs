//! `procs`: n processes, one name. Each process is this program again, as a worker ([`crate::worker`]).

use super::plan::Plan;
use crate::Result;
use crate::count::Counts;
use crate::figure::Unit;
use crate::rate::pairs_per_second;
use crate::report::{Row, Section};
use crate::slices::turns;
use crate::subject::Subject;
use crate::worker::{Crew, WorkerTask};

const PROCESSES: usize = 4;

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let about = format!("{PROCESSES} processes, one name; holds of all, beside bare pairs of one task");
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    match subject.flags() {
        Err(why) => notes.push(format!("not measured: {why}")),
        Ok(flags) => {
            let (row, least) = together(subject, &flags, plan).await?;
            notes
                .push(format!("The least of them had {least:.2} of its share, in the median of the slices."));
            rows.push(row);
        }
    }
    Ok(Section { scenario: "procs", about, twin: subject.twin(), rows, notes })
}

/// The holds of all processes, and the smallest holder's part of its fair share.
async fn together<S: Subject>(subject: &S, flags: &[String], plan: &Plan) -> Result<(Row, f64)> {
    let task = WorkerTask::Contend { name: "bench:procs".into(), slice: plan.slice };
    let mut crew = Crew::start(flags, &task, PROCESSES)?;
    let bare = subject.bare_hot(1).await?;
    let found =
        turns(plan.slices, async || Ok((pairs_per_second(&bare, plan.slice).await?, crew.step::<f64>()?)));
    let found = found.await?;
    let counts = count(subject, &mut crew, plan).await?;
    crew.end()?;
    let row =
        Row::new(format!("{PROCESSES} processes"), Unit::Rate).bare(found.iter().map(|(bare, _)| *bare));
    let row = row.ours(found.iter().map(|(_, each)| each.iter().sum())).counts(counts);
    Ok((row, least_share(found.iter().map(|(_, each)| each.as_slice()))))
}

/// The store's work for each hold. A slice has a duration and not a number of holds, so this is slightly too much: the
/// rate leaves out one hold of each process.
async fn count<S: Subject>(subject: &S, crew: &mut Crew, plan: &Plan) -> Result<Counts> {
    let counted = subject.counted().await?;
    let before = counted.counts().await?;
    let holds = crew.step::<f64>()?.iter().sum::<f64>() * plan.slice.as_secs_f64();
    Ok((counted.counts().await? - before).per(holds as usize))
}

fn least_share<'a>(slices: impl Iterator<Item = &'a [f64]>) -> f64 {
    crate::figure::Figure::of(slices.map(share_of_least)).map_or(0.0, |figure| figure.median)
}

/// What the least served of these has of its fair share.
pub(super) fn share_of_least(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    rates.iter().copied().fold(f64::INFINITY, f64::min) * rates.len() as f64 / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_each_would_have_if_all_had_the_same() {
        assert_eq!(least_share([[50.0, 100.0, 150.0].as_slice()].into_iter()), 0.5);
    }
}
