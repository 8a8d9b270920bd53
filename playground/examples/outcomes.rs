//! Prints what each lesson and some other runs come to, or each link that is given. The browser's tests compare the page
//! with it.
//!
//! One line each, with tabs between: id, events, fingerprint, events and fingerprint beside it, what is told.

use tidelock_playground::{Run, Settings, filled, lessons};

/// Runs with what no lesson has: other ways to come, a crowd, servers that are away, clocks, tasks under faults.
const OTHERS: [&str; 7] = [
    "v2;policy=line;clients=7;arrival=poisson;seed=5;loss=4",
    "v2;policy=setnx;clients=9;crowd=700;arrival=bursts;seed=6;stock=60",
    "v2;policy=line;flavour=watch;clients=4;crowd=3000;arrival=poisson;stock=40;do=900.stop.0.0,2500.start.0.0",
    "v2;policy=line;flavour=range;clients=4;do=700.restart.0.800,1600.slow.1.50,1700.fast.2.80,1800.skew.0.60000",
    "v2;policy=line;flavour=poll;clients=5;work=pages;do=500.partition.1.9000,1900.heal.1.0,2600.restart.0.300",
    "v2;policy=cohort;flavour=poll;clients=7;tasks=3;crowd=900;linger=250;do=700.pause.1.3000,2500.cancel.3.0",
    "v2;policy=line;clients=200;crowd=100000;stock=300;hold=5;gap=10;latency=5;end=20000",
];

fn main() -> Result<(), String> {
    let links: Vec<String> = std::env::args().skip(1).collect();
    for link in &links {
        let run = Run::new(&Settings::read(link)?);
        println!("{link}\t{}\t{}\t{:?}", run.count(), run.fingerprint(), run.outcome());
    }
    for link in OTHERS.iter().filter(|_| links.is_empty()) {
        let run = Run::new(&Settings::read(link)?);
        println!("{link}\t{}\t{}\t0\t0\t", run.count(), run.fingerprint());
    }
    for lesson in lessons().iter().filter(|_| links.is_empty()) {
        let (run, beside) = lesson.runs()?;
        let other = beside.as_ref().map(Run::outcome).unwrap_or_default();
        let (count, print) = beside.as_ref().map_or((0, 0), |run| (run.count(), run.fingerprint()));
        let told = filled(lesson.told, &run.outcome(), &other);
        println!("{}\t{}\t{}\t{count}\t{print}\t{told}", lesson.id, run.count(), run.fingerprint());
    }
    Ok(())
}
