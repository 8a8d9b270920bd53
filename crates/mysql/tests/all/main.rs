//! The backend's own tests on a server: `cargo xtask test --only servers`.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod beside;
#[cfg(feature = "tls")]
mod certificates;
mod credentials;
mod crowds;
mod failover;
mod hand_off;
mod inside;
mod kept;
#[allow(dead_code)] // tests/waiting.rs uses the rest
mod server;
mod swept;
mod trouble;
