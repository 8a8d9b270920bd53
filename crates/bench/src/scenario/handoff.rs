//! `handoff`: one task gives back while another waits, with none and with many more in line behind it.

use std::sync::Arc;

use tidelock_core::Locks;

use super::plan::Plan;
use super::relay::Relay;
use crate::Result;
use crate::count::Counts;
use crate::exclusion::Exclusion;
use crate::figure::Unit;
use crate::latency::Latency;
use crate::ours::{self, Ours, STRICT};
use crate::report::{Row, Section};
use crate::slices::turns;
use crate::subject::Subject;

/// Enough hand-offs to count by.
const COUNTED: usize = 100;

/// One slice of both sides.
struct Turn {
    bare: Latency,
    ours: Latency,
}

/// Both sides, with lines of the same length.
struct Pair<B> {
    bare: Relay<B>,
    ours: Relay<Ours>,
}

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let clients = ours::clients(subject, 2, STRICT).await?;
    let mut short = Pair::start(subject, &clients, 0).await?;
    let mut long = Pair::start(subject, &clients, plan.parked).await?;
    // All four in turn, because the long line is also compared with the short one.
    let found = turns(plan.slices, async || {
        Ok((short.turn(plan.hand_offs).await?, long.turn(plan.long_hand_offs).await?))
    });
    let (in_short, in_long): (Vec<_>, Vec<_>) = found.await?.into_iter().unzip();
    short.end().await?;
    long.end().await?;
    ours::close(clients).await?;

    let mut rows = rows("none more", &in_short, count(subject, 0).await?);
    rows.extend(self::rows(&format!("{} more", plan.parked), &in_long, count(subject, plan.parked).await?));
    rows.push(long_over_short(plan.parked, &in_long, &in_short));
    let about =
        "two clients by turns, and more who wait behind them; until the next one's task has it".into();
    Ok(Section { scenario: "handoff", about, twin: subject.twin(), rows, notes: Vec::new() })
}

impl<B: Exclusion> Pair<B> {
    async fn start<S: Subject<BareHandOff = B>>(
        subject: &S,
        clients: &[Arc<dyn Locks>],
        more: usize,
    ) -> Result<Self> {
        let bare = Relay::start(subject.bare_handoff().await?, more).await?;
        Ok(Self { bare, ours: Relay::start(ours(clients, more)?, more).await? })
    }

    async fn turn(&mut self, hand_offs: usize) -> Result<Turn> {
        Ok(Turn {
            bare: slice(&mut self.bare, hand_offs).await?,
            ours: slice(&mut self.ours, hand_offs).await?,
        })
    }

    async fn end(self) -> Result<()> {
        self.bare.end().await?;
        self.ours.end().await
    }
}

fn ours(clients: &[Arc<dyn Locks>], more: usize) -> Result<[Ours; 2]> {
    let name = format!("bench:handoff:{more}");
    Ok([Ours::new(&clients[0], &name)?, Ours::new(&clients[1], &name)?])
}

async fn slice<E: Exclusion>(relay: &mut Relay<E>, hand_offs: usize) -> Result<Latency> {
    let mut times = Vec::with_capacity(hand_offs);
    for _ in 0..hand_offs {
        times.push(relay.hand_off().await?);
        relay.fill_up().await?;
    }
    Latency::of(times).ok_or_else(|| "a slice had no hand-off".into())
}

/// The store's work for one hand-off.
async fn count<S: Subject>(subject: &S, more: usize) -> Result<Counts> {
    let counted = subject.counted().await?;
    let clients = ours::clients(&counted, 2, STRICT).await?;
    let mut relay = Relay::start(ours(&clients, more)?, more).await?;
    let mut sum: Option<Counts> = None;
    for _ in 0..COUNTED {
        let before = counted.counts().await?;
        relay.hand_off().await?;
        let one = counted.counts().await? - before;
        sum = Some(sum.map_or(one, |sum| sum.plus(one)));
        relay.fill_up().await?;
    }
    relay.end().await?;
    ours::close(clients).await?;
    Ok(sum.unwrap_or_default().per(COUNTED))
}

fn rows(line: &str, turns: &[Turn], counts: Counts) -> Vec<Row> {
    let row = |what: &str, pick: fn(&Latency) -> f64| {
        let row = Row::new(format!("{line}, {what}"), Unit::Time);
        row.bare(turns.iter().map(|turn| pick(&turn.bare))).ours(turns.iter().map(|turn| pick(&turn.ours)))
    };
    vec![row("p50", |l| l.p50).counts(counts), row("p99", |l| l.p99), row("max", |l| l.max)]
}

fn long_over_short(parked: usize, long: &[Turn], short: &[Turn]) -> Row {
    let each =
        |pick: fn(&Turn) -> f64| long.iter().zip(short).map(move |(long, short)| pick(long) / pick(short));
    let row = Row::new(format!("p50 of {parked} more / of none"), Unit::Times);
    row.bare(each(|turn| turn.bare.p50)).ours(each(|turn| turn.ours.p50))
}
