//! The rule behind Tidelock's locks, alone: no std, no dependencies, no clock, no I/O.
//!
//! **The line is the lock.** Each name has one ordered [`Line`] of weighted claims. A claim is *held* when it and
//! everything ahead of it fit the capacity; otherwise it waits. That is the whole rule.
//!
//! | what people ask for | weight | capacity |
//! |---|---|---|
//! | mutex | 1 | 1 |
//! | read | 1 | [`Weight::MAX`] |
//! | write | [`Weight::MAX`] | [`Weight::MAX`] |
//! | n permits of a semaphore of N | n | N |
//!
//! What follows from it:
//!
//! - First come, first served: nobody passes, so a large request is not starved by small ones, nor a writer by
//!   readers; and readers who stand together enter together.
//! - Held is sticky: nothing that comes later takes it back, a semaphore that becomes smaller included. (It is
//!   refused to become so small that somebody who waits could never be held.)
//! - Each grant carries a [`Token`], greater than that of every earlier grant, also when the line was empty in
//!   between: a resource that remembers the newest token it saw can refuse an older holder.
//! - A client keeps its claims alive with one session. When that ends, its claims leave the line, and no other does.
//!
//! A [`World`] is every line and session together. It is moved on by one [`Op`] at a time, time included, and answers
//! with [`Event`]s; it is what the playground runs, and what every backend is compared with.
//!
//! Stores that show their line to the client have the client apply the rule to a [`ShownLine`], in which claims may stand
//! that should not: [`place()`] says whether a claim is held, [`watch()`] names the one thing worth waiting for if it is
//! not, and [`touches()`] says when to tell the next in line.
//!
//! Whoever compares a store with a [`World`] has [`Wishes`] drawn, and asks the same of both. A [`comparison`] does so
//! under a clock that is turned by hand.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod claim;
pub mod comparison;
mod dice;
mod event;
#[cfg(test)]
mod explore;
mod fault;
mod id;
mod join;
mod kind;
mod leave;
mod left;
mod line;
#[cfg(all(test, not(tidelock_fault)))]
mod long_lines;
mod op;
mod patience;
mod place;
mod refusal;
mod session;
mod shown;
mod token;
mod watch;
mod weight;
mod wishes;
mod world;

pub use claim::Claim;
pub use dice::Dice;
pub use event::Event;
pub use id::{ClaimId, SessionId};
pub use join::Join;
pub use kind::Kind;
pub use leave::Leave;
pub use left::Left;
pub use line::Line;
pub use op::Op;
pub use patience::Patience;
pub use place::{Place, place, places};
pub use refusal::Refusal;
pub use session::Session;
pub use shown::{Resized, ShownClaim, ShownLine};
pub use token::Token;
pub use watch::{Watch, touches, watch};
pub use weight::Weight;
pub use wishes::Wishes;
pub use world::World;
