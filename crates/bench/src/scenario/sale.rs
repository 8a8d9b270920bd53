//! `sale`: 10 in stock, 100 000 buyers. Exactly 10 are sold, or the run fails.
//!
//! The buyers come through 200 tasks. They read, decrement and write a number in the same store under the lock: in one
//! sale every buyer stands in line, in another each first looks whether it is sold out. The store's own atomic
//! decrement stands beside it, because the first question is whether a lock is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::plan::Plan;
use super::till::{Atomic, Careless, Locked, LooksFirst, Till};
use crate::Result;
use crate::count::Counts;
use crate::exclusion::Exclusion;
use crate::figure::Unit;
use crate::ours::{self, Ours, STRICT};
use crate::report::{Row, Section};
use crate::slices::turns;
use crate::subject::{Stock, Subject};

pub(super) const IN_STOCK: u32 = 10;
const TASKS: usize = 200;
const CLIENTS: usize = 2;
const NAME: &str = "bench:sale";

/// The seconds of each way, in one slice.
struct Turn {
    bare: Option<Ways>,
    ours: Ways,
    atomic: f64,
}

/// The two ways under a lock.
struct Ways {
    in_line: f64,
    looks_first: f64,
}

struct Sale {
    sold: usize,
    seconds: f64,
}

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let clients = ours::clients(subject, CLIENTS, STRICT).await?;
    let ours = Ours::shared(&clients, NAME, TASKS)?;
    let bare = subject.bare_lock().await?.map(|lock| vec![lock; TASKS]);
    let found = turns(plan.slices, async || {
        let bare = match &bare {
            Some(locks) => Some(under(subject, locks, plan.buyers).await?),
            None => None,
        };
        let ours = under(subject, &ours, plan.buyers).await?;
        let stock = subject.stock(IN_STOCK).await?;
        let atomic = exact(vec![Atomic(stock.clone()); TASKS], &stock, plan.buyers).await?;
        Ok(Turn { bare, ours, atomic })
    });
    let found = found.await?;
    ours::close(clients).await?;
    let about = format!(
        "{IN_STOCK} in stock, {} buyers through {TASKS} tasks of {CLIENTS} clients; the whole sale",
        plan.buyers
    );
    let notes = vec![
        format!("Exactly {IN_STOCK} were sold in every sale above, or this would have failed."),
        careless(subject, plan.buyers).await?,
    ];
    Ok(Section {
        scenario: "sale",
        about,
        twin: subject.twin(),
        rows: rows(subject, &found, plan).await?,
        notes,
    })
}

/// Makes a sale in each way under these locks.
async fn under<S: Subject, E: Exclusion>(subject: &S, locks: &[E], buyers: usize) -> Result<Ways> {
    let tills = |stock: &S::Stock| {
        locks.iter().map(|lock| Locked { lock: lock.clone(), stock: stock.clone() }).collect()
    };
    let stock = subject.stock(IN_STOCK).await?;
    let in_line = exact::<Locked<E, _>, _>(tills(&stock), &stock, buyers).await?;
    let stock = subject.stock(IN_STOCK).await?;
    let careful: Vec<Locked<E, _>> = tills(&stock);
    let looks_first = exact(careful.into_iter().map(LooksFirst).collect(), &stock, buyers).await?;
    Ok(Ways { in_line, looks_first })
}

/// Makes a sale that must sell exactly the stock, and returns its seconds.
async fn exact<L: Till, T: Stock>(tills: Vec<L>, stock: &T, buyers: usize) -> Result<f64> {
    let sale = sell(tills, buyers).await?;
    check(stock, sale.sold).await?;
    Ok(sale.seconds)
}

/// Fails unless exactly the stock was sold.
pub(super) async fn check<T: Stock>(stock: &T, sold: usize) -> Result<()> {
    match stock.read().await? {
        0 if sold == IN_STOCK as usize => Ok(()),
        left => Err(format!("{sold} of {IN_STOCK} were sold, but {left} are left").into()),
    }
}

async fn sell<L: Till>(tills: Vec<L>, buyers: usize) -> Result<Sale> {
    let (open, came) = (Arc::new(Barrier::new(tills.len() + 1)), Arc::new(AtomicUsize::new(0)));
    let mut selling: JoinSet<Result<usize>> = JoinSet::new();
    for till in tills {
        let (open, came) = (open.clone(), came.clone());
        selling.spawn(async move {
            let mut sold = 0;
            open.wait().await;
            while came.fetch_add(1, Ordering::Relaxed) < buyers {
                sold += usize::from(till.sell().await?);
            }
            Ok(sold)
        });
    }
    open.wait().await;
    let began = Instant::now();
    let mut sold = 0;
    while let Some(done) = selling.join_next().await {
        sold += done??;
    }
    Ok(Sale { sold, seconds: began.elapsed().as_secs_f64() })
}

/// A sale without a lock: it shows that this scenario detects a missing lock.
async fn careless<S: Subject>(subject: &S, buyers: usize) -> Result<String> {
    let stock = subject.stock(IN_STOCK).await?;
    let sale = sell(vec![Careless(stock); TASKS], buyers).await?;
    Ok(format!("The same without a lock sold {} of {IN_STOCK}.", sale.sold))
}

async fn rows<S: Subject>(subject: &S, found: &[Turn], plan: &Plan) -> Result<Vec<Row>> {
    let row = |case: &str, pick: fn(&Ways) -> f64| {
        let bare = found.iter().filter_map(|turn| turn.bare.as_ref().map(pick));
        Row::new(case, Unit::Time).ours(found.iter().map(|turn| pick(&turn.ours))).bare(bare)
    };
    let in_line = row("every buyer in line", |ways| ways.in_line).counts(count(subject, plan.buyers).await?);
    let looks_first = row("looks first", |ways| ways.looks_first);
    let atomic = Row::new("atomic decrement, no lock", Unit::Time).bare(found.iter().map(|turn| turn.atomic));
    Ok(vec![in_line, looks_first, atomic])
}

/// The store's work for each buyer in line.
async fn count<S: Subject>(subject: &S, buyers: usize) -> Result<Counts> {
    let counted = subject.counted().await?;
    let clients = ours::clients(&counted, CLIENTS, STRICT).await?;
    let locks = Ours::shared(&clients, NAME, TASKS)?;
    let stock = counted.stock(IN_STOCK).await?;
    let before = counted.counts().await?;
    let tills = locks.into_iter().map(|lock| Locked { lock, stock: stock.clone() }).collect();
    exact::<Locked<Ours, _>, _>(tills, &stock, buyers).await?;
    let counts = counted.counts().await? - before;
    ours::close(clients).await?;
    Ok(counts.per(buyers))
}
