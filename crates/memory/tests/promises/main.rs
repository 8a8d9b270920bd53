//! What the store in memory promises, told as its clients see it.

mod client;
mod cost;
mod faults;
mod lease;
mod leave;
mod rule;
mod turn;
