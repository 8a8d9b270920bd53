//! Commands whose subject is not part of this version. They fail with a message, so that a script does not take silence
//! for success.

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::trouble::Result;

/// Each command, and what it would need.
const ABSENT: &[(&str, &str)] = &[("playground", "the playground")];

pub(crate) fn main(command: &str, mut flags: Parser) -> Result<ExitCode> {
    let subject = ABSENT.iter().find(|(name, _)| *name == command).map_or(command, |(_, subject)| subject);
    let sentence =
        format!("`cargo xtask {command}` has nothing to run: {subject} is not part of this version");
    if let Some(flag) = flags.next()? {
        return match flag {
            Short('h') | Long("help") => Ok(crate::help(&sentence)),
            other => Err(other.unexpected().into()),
        };
    }
    Err(sentence.into())
}
