//! The tests against servers, in one program. Apart are those that change what a whole process has (`closed`), that
//! count what the server does (`packets`), that keep the processor busy (`model`), or that are programs for something
//! else.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[cfg(feature = "tls")]
mod certificates;
mod crowd;
mod kept;
mod mixed;
mod places;
mod promises;
mod reconnect;
mod sequences;
mod silence;
#[path = "../site/mod.rs"]
mod site;
mod trouble;
