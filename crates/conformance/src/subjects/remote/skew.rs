//! Clients whose clocks differ, as on different machines. Each is a process in its own time namespace, where the boot
//! clock starts at another value. The program `unshare` of util-linux creates one, if the system allows it.

use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Options of `unshare`: become a user who may create a time namespace, and leave no process behind when this one is
/// killed.
const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--time", "--fork", "--kill-child"];

/// The clock difference between each client and the next, and the difference between the last client's clock and ours.
#[derive(Debug, Default)]
pub(super) struct Skew(Mutex<(Duration, Duration)>);

impl Skew {
    /// Clocks of clients that start from now on differ by this much.
    pub(super) fn set(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (by, Duration::ZERO);
    }

    /// The command that runs the next client with its own clock.
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

/// Why clocks cannot be made to differ here, if so.
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
    Some(format!("this system cannot give a process its own boot clock: {why}"))
}

fn ahead_by(by: Duration) -> Command {
    let by = by.as_secs().to_string();
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["--boottime", &by, "--monotonic", &by, "--"]);
    command
}
