//! The backend's own tests on a server: `cargo xtask test --only servers`.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod inside;
mod server;
mod trouble;
mod waiting;
