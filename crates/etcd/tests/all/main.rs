//! The tests against servers, in one program. Apart are those that count what the server does (`requests`), that change a
//! server for everyone (`spare`), that keep the processor busy (`model`), or that are programs for something else.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod answers;
#[cfg(feature = "tls")]
mod certificates;
mod ending;
mod evictions;
mod fence;
mod foreign;
mod full;
mod kept;
mod large;
mod late;
mod leftovers;
mod lock_rpc;
mod members;
mod network;
mod operations;
mod order;
mod quiet;
mod renewals;
mod renumbered;
mod restored;
#[path = "../site/mod.rs"]
mod site;
mod slots;
mod stream;
mod unnoticed;
