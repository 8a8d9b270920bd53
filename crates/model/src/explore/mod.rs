//! Proof by exhaustion: every order of every operation on small lines, breadth first.
//!
//! Three games are played to their end. In [`rule`] the moves are the operations of a [`World`](crate::World), and
//! after each one the [checks](check) examine what it did. In [`waking`] the moves are operations, too, but clients
//! see only what a store shows them. They look when they are stirred, in any order, and trust
//! [`place`](crate::place()), [`watch`](crate::watch()) and [`touches`](crate::touches). In [`strays`] claims of
//! several types stand in one line, and their clients are cut off.
//!
//! States that differ only in the absolute time and in the absolute values of orders and tokens are one: see [`key`].
//! `TIDELOCK_DEEP=1` explores larger stages.

pub(crate) mod check;
pub(crate) mod crowd;
mod game;
mod key;
pub(crate) mod moment;
mod rule;
mod search;
mod stage;
mod strays;
pub(crate) mod waking;
pub(crate) mod witness;

use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, println};

use game::Game;
use rule::Rule;
use search::search;
use waking::Waking;

#[test]
fn every_order_of_every_operation() {
    let deep = is_deep();
    let mut counts = Vec::new();
    for (plain, watched) in stage::all(deep) {
        counts.push((plain.title.to_string(), explore(&Rule::new(plain))));
        counts.push((format!("{} watched", watched.title), explore(&Waking::new(watched))));
    }
    let total = tell(&counts);
    assert!(total > if deep { 1_000_000 } else { 100_000 }, "the stages are too small to prove anything");
}

#[test]
fn every_order_on_a_line_that_everyone_may_stand_in() {
    let deep = is_deep();
    let each = strays::all(deep).into_iter();
    let counts: Vec<_> = each.map(|strays| (strays.title().to_string(), explore(&strays))).collect();
    let total = tell(&counts);
    assert!(total > if deep { 1_000_000 } else { 100_000 }, "the stages are too small to prove anything");
}

fn is_deep() -> bool {
    std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1")
}

/// Prints how many states there were, on a line of its own even if the test runner has begun one.
fn tell(counts: &[(String, usize)]) -> usize {
    let total = counts.iter().map(|(_, count)| count).sum();
    let each: Vec<String> = counts.iter().map(|(title, count)| format!("{title} {count}")).collect();
    println!("\nexplored: {total} states ({})", each.join(", "));
    total
}

#[test]
fn every_fault_is_meant_for_a_check_that_exists() {
    let lines = include_str!("../../faults.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.is_empty()) {
        let (_, meant) = line.split_once(' ').expect("a fault and a check");
        assert!(
            check::names().chain(waking::names()).chain(strays::names()).any(|name| name == meant),
            "no check is called {meant}"
        );
    }
}

/// How many states the game has. If a check is broken, panics with the shortest history that leads there.
fn explore(game: &impl Game) -> usize {
    search(game).unwrap_or_else(|defeat| {
        println!("\n{defeat}");
        panic!("{} broken", defeat.broken[0].name);
    })
}
