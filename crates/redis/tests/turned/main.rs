//! The scripts against the rule, under a simulated clock. `tidelock_model::comparison` draws the time and the
//! operation; the scripts that users run execute it on a real server. After each script its reply, its messages and its
//! stored state must be what the rule says.
//!
//! Here only, text before each script makes it see the simulated clock (`turned.lua`). Many sequences run side by side,
//! each on its own names; a round trip carries one operation of each.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_TURNED_SEED=SEED` runs that one alone. `TIDELOCK_DEEP=1` runs
//! millions of operations.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod answered;
mod asked;
mod faults;
#[path = "../../src/lua/mod.rs"]
#[allow(dead_code)] // not all of them change a line
mod lua;
mod scripts;
mod sequence;
#[path = "../site/mod.rs"]
mod site;
mod stories;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use faults::{FAULTS, FEW_AT_ONCE, Fault};
use redis::{Client, Connection};
use scripts::Scripts;
use sequence::Sequence;

/// The number of sequences that share a round trip.
const SIDE_BY_SIDE: usize = 48;

fn operations() -> u64 {
    let is_deep = std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1");
    if is_deep { 5_000_000 } else { 100_000 }
}

fn connect() -> Connection {
    Client::open(site::url()).unwrap().get_connection().unwrap()
}

/// Seeds that no earlier run has used.
fn seeds() -> AtomicU64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    AtomicU64::new(u64::try_from(since.as_micros()).unwrap() << 16)
}

/// Runs sequences on two connections until so many operations are done. An error is the first difference from the rule.
fn run_twice(scripts: &Variants, seeds: &AtomicU64, operations: u64) -> Result<u64, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let half = || run(scripts, seeds, operations / 2, &is_over);
        let halves = [scope.spawn(half), scope.spawn(half)];
        halves.map(|half| half.join().unwrap()).into_iter().sum()
    })
}

/// Runs sequences side by side on one connection.
fn run(scripts: &Variants, seeds: &AtomicU64, operations: u64, is_over: &AtomicBool) -> Result<u64, String> {
    let mut server = connect();
    let begin = || Sequence::new(seeds.fetch_add(1, Ordering::Relaxed));
    let mut sequences: Vec<_> = (0..SIDE_BY_SIDE).map(|_| begin()).collect();
    let mut done = 0;
    while done < operations && !is_over.load(Ordering::Relaxed) {
        done += round(&mut server, scripts, &mut sequences)
            .inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        for sequence in sequences.iter_mut().filter(|sequence| sequence.is_over()) {
            *sequence = begin();
        }
    }
    Ok(done)
}

/// The scripts with these faults; a variant with limits so low that even a short line is granted in pieces; and one with
/// the scripts for many names.
type Variants = [Scripts; 3];

fn load(server: &mut Connection, faults: &[&Fault]) -> Variants {
    let few_at_once = [faults, &[&FEW_AT_ONCE]].concat();
    [
        Scripts::load(server, faults, false),
        Scripts::load(server, &few_at_once, false),
        Scripts::load(server, faults, true),
    ]
}

/// Runs one operation of each sequence.
fn round(server: &mut Connection, scripts: &Variants, sequences: &mut [Sequence]) -> Result<u64, String> {
    let mut pipeline = redis::pipe();
    for sequence in sequences.iter_mut() {
        pipeline.add_command(sequence.ask(&scripts[sequence.variant()]));
    }
    let replies: Vec<redis::Value> = pipeline.query(server).map_err(|error| error.to_string())?;
    for (sequence, reply) in sequences.iter_mut().zip(replies) {
        sequence.judge(&reply)?;
    }
    Ok(sequences.len() as u64)
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn the_scripts_do_what_the_rule_does_whatever_time_it_is() {
    let (mut server, seeds) = (connect(), seeds());
    let scripts = load(&mut server, &[]);
    if let Ok(seed) = std::env::var("TIDELOCK_TURNED_SEED") {
        let mut one = [Sequence::new(seed.parse().unwrap())];
        while !one[0].is_over() {
            round(&mut server, &scripts, &mut one).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        return;
    }
    let start = Instant::now();
    let done = run_twice(&scripts, &seeds, operations()).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{done} operations in {:?}", start.elapsed());
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn every_seeded_fault_is_caught() {
    let (mut server, seeds) = (connect(), seeds());
    let only = std::env::var("TIDELOCK_FAULT").ok();
    let mut missed = Vec::new();
    for fault in FAULTS.iter().filter(|fault| only.as_deref().is_none_or(|only| fault.name == only)) {
        let start = Instant::now();
        let scripts = load(&mut server, &[fault]);
        match run_twice(&scripts, &seeds, 10 * operations()) {
            Ok(_) => missed.push(fault.name),
            Err(wrong) => {
                let why = wrong.lines().next().unwrap_or_default();
                println!("{}: {why} ({:?})", fault.name, start.elapsed());
            }
        }
    }
    assert!(missed.is_empty(), "these faults were not noticed: {missed:?}");
}
