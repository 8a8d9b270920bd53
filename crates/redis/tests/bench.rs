//! The unit tests of what the benchmark knows of a Redis.

#![allow(dead_code)] // the benchmark `store` uses it

#[path = "../benches/store/main.rs"]
mod store;
