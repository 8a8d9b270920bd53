//! The rule behind Tidelock's locks, alone: no std, no dependencies, no clock, no I/O.
//!
//! **The line is the lock.** Each name has one ordered [`Line`] of weighted claims. A claim is *held* when it and
//! everything ahead of it fit the capacity; otherwise it waits. That is the whole rule.
//!
//! | request | weight | capacity |
//! |---|---|---|
//! | mutex | 1 | 1 |
//! | read | 1 | [`Weight::MAX`] |
//! | write | [`Weight::MAX`] | [`Weight::MAX`] |
//! | n permits of a semaphore of N | n | N |
//!
//! What follows from it:
//!
//! - First come, first served: no claim passes another, so small requests do not starve a large one, and readers do
//!   not starve a writer. Readers that stand together enter together.
//! - Held is sticky: nothing that comes later takes it back, not even a resize to a smaller semaphore. (A resize is
//!   refused if a waiting claim could then never be held.)
//! - Each grant carries a [`Token`] greater than that of every earlier grant, even if the line was empty in between:
//!   a resource that remembers the newest token it saw can refuse an older holder.
//! - A client keeps its claims alive with one session. When the session ends, its claims leave the line, and no
//!   others do.
//!
//! A [`World`] holds every line and every session. It takes one [`Op`] at a time, time included, and answers with
//! [`Event`]s. The playground runs it, and every backend is compared with it.
//!
//! Some stores show their line to the client. There the client applies the rule to a [`ShownLine`], which may contain
//! claims that should not stand there. [`place()`] says whether a claim is held, [`watch()`] names the one thing to
//! wait for if it is not, and [`touches()`] says when to tell the next claim in line.
//!
//! To compare a store with a [`World`], draw operations with [`Wishes`] and send each one to both. A [`comparison`]
//! does so under a manual clock.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod seeded;

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
#[cfg(test)]
mod long_lines;
mod op;
mod patience;
mod place;
mod refusal;
#[cfg(feature = "serde")]
mod serial;
mod session;
mod shown;
mod table;
mod token;
mod watch;
mod weight;
mod wishes;
mod world;

pub use claim::Claim;
pub use dice::Dice;
pub use event::Event;
pub use id::{ClaimId, NoClaimId, SessionId};
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
