//! `held`: many names held by one client. Measures the memory of each name, the duration of a renewal of all of them,
//! and the effect of renewals on tasks that take other names meanwhile.
//!
//! A separate process holds 100 000 names, so that its memory contains nothing else. Its renewals are observed at the
//! server, by polling how much it has done: a renewal lasts from one quiet moment to the next. Then 10 000 names are
//! held and given back in turn, while three tasks take names of their own: one of the same client, one of another
//! client, and one with bare commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock_core::Locks;

use super::plan::Plan;
use crate::Result;
use crate::crowd::Crowd;
use crate::exclusion::Exclusion;
use crate::figure::Unit;
use crate::latency::Latency;
use crate::ours::{self, Ours, STRICT};
use crate::report::{Row, Section};
use crate::slices::turns;
use crate::subject::{Load, Subject};
use crate::worker::{Crew, WorkerTask};

/// The ttl of the client that holds while others take. Renewals are a third of it apart, so each slice sees one.
const TTL: Duration = Duration::from_secs(3);
const SLICE: Duration = TTL.checked_div(3).expect("three is not zero");
/// The ttl of the process that holds 100 000 names: the default.
const LONG_TTL: Duration = Duration::from_secs(15);
const RENEWALS: usize = 3;
/// A renewal is over when no other command follows for this long.
const QUIET: Duration = Duration::from_millis(200);
/// How often to ask the server how much it has done.
const PAUSE: Duration = Duration::from_millis(2);

/// The acquires of one slice.
struct Acquires {
    bare: Latency,
    same: Latency,
    other: Latency,
}

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    match subject.flags() {
        Err(why) => notes.push(format!("Bytes and renewals are not measured: {why}.")),
        Ok(flags) => rows.extend(standing(subject, &flags, plan.names).await?),
    }
    rows.extend(meanwhile(subject, plan).await?);
    notes.push(format!(
        "Renewals are of all names at once: every {:?} of the {} names, every {SLICE:?} of the {}.",
        LONG_TTL / 3,
        plan.names,
        plan.held
    ));
    let about =
        "many names held by one client: what they take up, and what renewing them does to others".into();
    Ok(Section { scenario: "held", about, twin: subject.twin(), rows, notes })
}

/// The memory of this many names in one process, and the durations of their renewals.
async fn standing<S: Subject>(subject: &S, flags: &[String], names: usize) -> Result<Vec<Row>> {
    let mut crew = Crew::start(flags, &WorkerTask::Hold { names }, 1)?;
    let before = load(subject).await?.memory;
    let grown = crew.step::<f64>()?;
    let after = load(subject).await?.memory;
    let mut renewals = Vec::new();
    for _ in 0..RENEWALS {
        renewals.push(renewal(subject).await?.as_secs_f64());
    }
    let lost: f64 = crew.step::<f64>()?.iter().sum();
    crew.end()?;
    if lost > 0.0 {
        return Err(format!("{lost} of {names} names were lost").into());
    }
    let row = |what: &str, unit| Row::new(format!("{names} names, {what}"), unit);
    Ok(vec![
        row("each at the server", Unit::Bytes).ours([(after - before) / names as f64]),
        row("each in the client", Unit::Bytes).ours([grown.iter().sum::<f64>() / names as f64]),
        row("a renewal of all", Unit::Time).ours(renewals),
    ])
}

/// The duration of the next renewal, as the server sees it.
async fn renewal<S: Subject>(subject: &S) -> Result<Duration> {
    let give_up = Instant::now() + LONG_TTL;
    let (mut quiet_since, mut began) = (Instant::now(), None);
    let mut done = load(subject).await?.done;
    loop {
        tokio::time::sleep(PAUSE).await;
        let (asked, now) = (Instant::now(), load(subject).await?.done);
        if now - done > 1.0 {
            began.get_or_insert(quiet_since);
            quiet_since = Instant::now();
        } else if let Some(began) = began {
            if quiet_since.elapsed() > QUIET {
                return Ok(quiet_since - began);
            }
        } else {
            quiet_since = asked;
        }
        if began.is_none() && Instant::now() > give_up {
            return Err(format!("no renewal was seen within {LONG_TTL:?}").into());
        }
        done = now;
    }
}

async fn load<S: Subject>(subject: &S) -> Result<Load> {
    subject.load().await?.ok_or_else(|| "this store has no server that reports its load".into())
}

/// The duration of an acquire, with no names and with many names held meanwhile.
async fn meanwhile<S: Subject>(subject: &S, plan: &Plan) -> Result<Vec<Row>> {
    let clients = ours::clients(subject, 2, STRICT).await?;
    let holder = clients[0].with_ttl(TTL)?;
    let bare = subject.bare_hot(1).await?;
    let found = turns(plan.slices, async || {
        let none = acquires(&bare[0], &holder, &clients[1]).await?;
        let crowd = Crowd::take(&holder, "bench:held", plan.held).await?;
        let many = acquires(&bare[0], &holder, &clients[1]).await?;
        let lost = crowd.lost();
        if lost > 0 {
            return Err(format!("{lost} of {} names were lost", plan.held).into());
        }
        crowd.give_back().await?;
        Ok((none, many))
    });
    let (none, many): (Vec<_>, Vec<_>) = found.await?.into_iter().unzip();
    holder.close().await?;
    ours::close(clients).await?;
    Ok(rows(&none, &many, plan.held))
}

async fn acquires<B: Exclusion>(
    bare: &B,
    holder: &Arc<dyn Locks>,
    other: &Arc<dyn Locks>,
) -> Result<Acquires> {
    let until = Instant::now() + SLICE;
    let (same, other) = (Ours::new(holder, "bench:same")?, Ours::new(other, "bench:other")?);
    let (bare, same, other) = tokio::join!(each(bare.clone(), until), each(same, until), each(other, until));
    Ok(Acquires { bare: bare?, same: same?, other: other? })
}

/// Runs on a task of its own.
async fn each<E: Exclusion>(lock: E, until: Instant) -> Result<Latency> {
    let times = tokio::spawn(take_until(lock, until)).await??;
    Latency::of(times).ok_or_else(|| "no lock was taken in a whole slice".into())
}

/// Takes and gives back. Only the take is timed.
async fn take_until<E: Exclusion>(lock: E, until: Instant) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let asked = Instant::now();
        let held = lock.take().await?;
        times.push(asked.elapsed());
        lock.give_back(held).await?;
    }
    Ok(times)
}

fn rows(none: &[Acquires], many: &[Acquires], held: usize) -> Vec<Row> {
    let mut rows = side("by the same client", none, many, held, |slice| slice.same);
    rows.extend(side("by another", none, many, held, |slice| slice.other));
    rows
}

/// The rows of one side, beside the bare one in the same slices.
fn side(
    who: &str,
    none: &[Acquires],
    many: &[Acquires],
    held: usize,
    of: fn(&Acquires) -> Latency,
) -> Vec<Row> {
    let row = |what: &str, slices: &[Acquires], pick: fn(Latency) -> f64| {
        let row = Row::new(format!("acquire {who}, {what}"), Unit::Time);
        row.ours(slices.iter().map(|slice| pick(of(slice)))).bare(slices.iter().map(|slice| pick(slice.bare)))
    };
    let over = |of: fn(&Acquires) -> Latency| {
        many.iter().zip(none).map(move |(many, none)| of(many).p99 / of(none).p99)
    };
    vec![
        row("none held, p50", none, |latency| latency.p50),
        row("none held, p99", none, |latency| latency.p99),
        row(&format!("{held} held, p50"), many, |latency| latency.p50),
        row(&format!("{held} held, p99"), many, |latency| latency.p99),
        Row::new(format!("p99 of {held} held / of none"), Unit::Times)
            .ours(over(of))
            .bare(over(|slice| slice.bare)),
    ]
}
