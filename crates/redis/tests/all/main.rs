//! The tests against servers, in one program. Apart are those that change what a whole process has (`runtimes`), that
//! keep the processor busy (`model`), or that are programs for something else.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod connections;
mod failovers;
mod forgotten;
mod grants;
mod kept;
mod late;
mod lines;
mod permissions;
mod promises;
mod replicas;
mod silence;
#[path = "../site/mod.rs"]
mod site;
mod together;
mod trouble;
