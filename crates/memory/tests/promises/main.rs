//! The promises of the store in memory, as its clients see them.
#![allow(clippy::unwrap_used)] // all of this is a test, its client too

mod client;
mod cost;
mod faults;
mod lease;
mod leave;
mod replicas;
mod rule;
mod turn;
