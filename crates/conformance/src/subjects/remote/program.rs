//! The program of a client that is a process of its own.

use std::process::Command;
use std::sync::Arc;

use tidelock_core::Options;

/// Makes the command that runs a client in a process of its own, with these options.
pub type Program = Arc<dyn Fn(&Options) -> Command + Send + Sync>;
