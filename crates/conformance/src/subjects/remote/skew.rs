//! Clients whose clocks are apart, as those of different machines are: each is a process in a time namespace of its own,
//! where its boot clock begins elsewhere. The program `unshare` of util-linux makes one, if the system lets it.

use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// As somebody who may make one, and without a process that stays when this one is killed.
const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--time", "--fork", "--kill-child"];

/// How far apart the next client's clock is from the last one's, and how far the last one's is from ours.
#[derive(Debug, Default)]
pub(super) struct Skew(Mutex<(Duration, Duration)>);

impl Skew {
    /// Clocks of clients that begin from now on are this far apart.
    pub(super) fn set(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (by, Duration::ZERO);
    }

    /// What runs the next client, with a clock of its own.
    pub(super) fn put_on(&self, command: Command) -> Command {
        let mut skew = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (by, last) = *skew;
        if by.is_zero() {
            return command;
        }
        skew.1 = last + by;
        let mut skewed = ahead_by(skew.1);
        skewed.arg(command.get_program()).args(command.get_args());
        skewed
    }
}

/// Why clocks cannot be set apart here, if so.
pub(super) fn why_not() -> Option<&'static str> {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    WHY_NOT.get_or_init(try_it).as_deref()
}

fn try_it() -> Option<String> {
    let tried = ahead_by(Duration::from_secs(1)).arg("true").stdin(Stdio::null()).output();
    let why = match tried {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("unshare: {error}"),
    };
    Some(format!("no process can be given a boot clock of its own: {why}"))
}

fn ahead_by(by: Duration) -> Command {
    let by = by.as_secs().to_string();
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["--boottime", &by, "--monotonic", &by, "--"]);
    command
}
