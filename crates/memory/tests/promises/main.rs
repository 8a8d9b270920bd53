//! What the store in memory promises, told as a client sees it.

mod client;
mod cost;
mod rule;
mod turn;
