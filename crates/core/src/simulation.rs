//! Core in a simulation: one thread, a clock that is turned, and random numbers by a seed.
//!
//! This module exists only under `cfg(tidelock_simulation)`, with which `cargo xtask simulate` builds. Then a keeper runs
//! on the tokio runtime of the thread that needs it, [`boot_clock`] is the clock of the simulated world, and what is drawn
//! at random follows from the world's seed. [`Aside`](crate::Aside) runs the program's code in place. Everything else is
//! the code that users run.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::Arc;

use crate::Result;
use crate::backend::Clock;
use crate::{Error, ErrorKind, Name};

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static ARRIVALS: RefCell<Vec<Name>> = const { RefCell::new(Vec::new()) };
    static LOCAL_LINES: Cell<usize> = const { Cell::new(0) };
}

struct World {
    clock: Arc<dyn Clock>,
    state: u64,
}

/// This thread plays a world until this is dropped.
#[derive(Debug)]
#[must_use = "the world ends when this is dropped"]
pub struct Entered(());

/// From now on this thread plays the world of that clock and that seed.
pub fn enter(clock: Arc<dyn Clock>, seed: u64) -> Entered {
    WORLD.with_borrow_mut(|world| *world = Some(World { clock, state: seed }));
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.with_borrow_mut(|world| *world = None);
    }
}

/// From now on this thread runs on a machine of its world that has this clock.
pub fn switch(clock: Arc<dyn Clock>) {
    let before =
        WORLD.with_borrow_mut(|world| world.as_mut().map(|world| std::mem::replace(&mut world.clock, clock)));
    drop(before); // not while the world is borrowed
}

/// The clock of the machine on which this thread runs.
///
/// # Panics
/// If it plays none: nothing of Tidelock may run outside a world then.
#[must_use]
pub fn boot_clock() -> Arc<dyn Clock> {
    WORLD.with_borrow(|world| world.as_ref().expect("this thread plays no world").clock.clone())
}

/// The local lines to which acquires of this thread have come since this was asked: each has its place there from now on.
#[must_use]
pub fn arrivals() -> Vec<Name> {
    ARRIVALS.take()
}

/// How many local lines of this thread are not over.
#[must_use]
pub fn local_lines() -> usize {
    LOCAL_LINES.get()
}

/// An acquire comes to a local line.
pub(crate) fn arrives(name: &Name) {
    ARRIVALS.with_borrow_mut(|arrivals| arrivals.push(name.clone()));
}

/// Counts a local line for as long as it lives.
pub(crate) struct LocalLine(());

impl LocalLine {
    pub(crate) fn new() -> Self {
        LOCAL_LINES.set(LOCAL_LINES.get() + 1);
        Self(())
    }
}

impl Drop for LocalLine {
    fn drop(&mut self) {
        LOCAL_LINES.set(LOCAL_LINES.get() - 1);
    }
}

/// The next number of the world's seed (SplitMix64).
pub(crate) fn u64() -> Result<u64, Infallible> {
    WORLD.with_borrow_mut(|world| {
        let world = world.as_mut().expect("this thread plays no world");
        world.state = world.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = world.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(mixed ^ (mixed >> 31))
    })
}

/// The runtime of this thread, on which keepers run.
pub(crate) fn runtime() -> Result<tokio::runtime::Handle> {
    tokio::runtime::Handle::try_current()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "this thread has no runtime").because(error))
}
