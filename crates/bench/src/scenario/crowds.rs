//! `crowds`: processes with a crowd of tasks each, one name, and critical sections: the shares and the waits for each
//! linger, beside those at linger zero. Each process is this program again, as a worker ([`crate::worker`]).

use std::time::Duration;

use super::cohort::TWIN;
use super::plan::Plan;
use super::procs::share_of_least;
use crate::Result;
use crate::figure::Unit;
use crate::ours::STRICT;
use crate::report::{Row, Section};
use crate::slices::turns;
use crate::subject::Subject;
use crate::waits::Waits;
use crate::worker::{Crew, WorkerTask};

const PROCESSES: usize = 4;
const TASKS: usize = 16;
/// How long each holds.
const SECTIONS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(20)];
/// The first is the twin of the others.
const LINGERS: [Duration; 4] =
    [STRICT, Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(30)];

/// One linger's slice.
struct Slice {
    all: Waits,
    /// What the least served process has of its fair share.
    least: f64,
}

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let about = format!("{PROCESSES} processes with {TASKS} tasks each, one name; each linger beside zero");
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    match subject.flags() {
        Err(why) => notes.push(format!("not measured: {why}")),
        Ok(flags) => {
            for section in SECTIONS {
                rows.extend(section_rows(&flags, section, plan).await?);
            }
            notes.extend(remarks());
        }
    }
    Ok(Section { scenario: "crowds", about, twin: TWIN, rows, notes })
}

fn remarks() -> [String; 3] {
    [
        "A share is the holds of the least served process, divided by a fair share.".into(),
        "p50 and p99 are those of the process that has the longest; the longest wait is that of any task."
            .into(),
        "A critical section is a sleep of the runtime, which takes up to 1 ms more.".into(),
    ]
}

/// All lingers with critical sections of this length, in turns.
async fn section_rows(flags: &[String], section: Duration, plan: &Plan) -> Result<Vec<Row>> {
    let mut crews = Vec::new();
    for linger in LINGERS {
        crews.push(Crew::start(flags, &task(section, linger, slice_of(section, plan)), PROCESSES)?);
    }
    let found = turns(plan.slices, async || crews.iter_mut().map(slice).collect::<Result<Vec<_>>>());
    let found = found.await?;
    for crew in crews {
        crew.end()?;
    }
    let of = |number: usize| found.iter().map(|turn| &turn[number]).collect::<Vec<&Slice>>();
    let beside_strict = |number| rows(section, LINGERS[number], &of(number), &of(0));
    Ok((1..LINGERS.len()).flat_map(beside_strict).collect())
}

/// Three times as long for sections of 20 ms: there a round of all tasks takes 1.4 s, and in less than a few rounds the
/// shares would show who came first.
fn slice_of(section: Duration, plan: &Plan) -> Duration {
    plan.crowd_slice.mul_f64(1.0 + section.as_secs_f64() * 100.0)
}

fn task(section: Duration, linger: Duration, slice: Duration) -> WorkerTask {
    let name = format!("bench:crowds:{}:{}", section.as_millis(), linger.as_millis());
    WorkerTask::Crowd { name, tasks: TASKS, section, linger, slice }
}

fn slice(crew: &mut Crew) -> Result<Slice> {
    let each: Vec<Waits> = crew.step()?;
    let rates: Vec<f64> = each.iter().map(|waits| waits.rate).collect();
    Ok(Slice { all: Waits::of_all(&each), least: share_of_least(&rates) })
}

fn rows(section: Duration, linger: Duration, ours: &[&Slice], strict: &[&Slice]) -> Vec<Row> {
    let [section, linger] = [section, linger].map(|time| time.as_millis());
    let row = |what: &str, unit, pick: fn(&Slice) -> f64| {
        let row = Row::new(format!("{section} ms sections, linger {linger} ms, {what}"), unit);
        row.ours(ours.iter().map(|slice| pick(slice))).bare(strict.iter().map(|slice| pick(slice)))
    };
    vec![
        row("holds", Unit::Rate, |slice| slice.all.rate),
        row("least share", Unit::Times, |slice| slice.least),
        row("wait p50", Unit::Time, |slice| slice.all.p50),
        row("wait p99", Unit::Time, |slice| slice.all.p99),
        row("longest wait", Unit::Time, |slice| slice.all.longest),
    ]
}
