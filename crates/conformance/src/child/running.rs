//! A process that can be killed, paused and resumed.

use std::process::{Child, Command};
use std::sync::Arc;

use crate::failure::{Failure, Outcome};

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    process: Child,
    label: Arc<str>,
    was_killed: bool,
}

impl Running {
    pub(crate) fn new(process: Child, label: &str) -> Self {
        Self { process, label: label.into(), was_killed: false }
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Whether it was killed before it ended by itself.
    pub(crate) fn was_killed(&self) -> bool {
        self.was_killed
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&mut self) -> Outcome {
        if self.process.try_wait().map_err(|error| self.trouble(&error))?.is_some() {
            return Ok(());
        }
        self.was_killed = true;
        self.process.kill().map_err(|error| self.trouble(&error))?;
        self.process.wait().map(drop).map_err(|error| self.trouble(&error))
    }

    /// Pauses it.
    pub(crate) fn stop(&self) -> Outcome {
        self.signal(Signal::Stop)
    }

    /// Resumes it, as if nothing had happened.
    pub(crate) fn go_on(&self) -> Outcome {
        self.signal(Signal::GoOn)
    }

    /// Its memory, in bytes.
    pub(crate) fn resident(&self) -> Outcome<u64> {
        let pid = self.process.id().to_string();
        let said = Command::new("ps").args(["-o", "rss=", "-p", &pid]).output();
        let said = said.map_err(|error| self.trouble(&error))?;
        let kilobytes = String::from_utf8_lossy(&said.stdout).trim().parse::<u64>();
        let unsaid = |_| Failure::new(format!("`ps` does not report the memory of {}", self.label));
        kilobytes.map(|kilobytes| kilobytes * 1024).map_err(unsaid)
    }

    fn trouble(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("{}: {error}", self.label))
    }

    #[cfg(unix)]
    fn signal(&self, signal: Signal) -> Outcome {
        use rustix::process::{Pid, kill_process};
        let signal = match signal {
            Signal::Stop => rustix::process::Signal::STOP,
            Signal::GoOn => rustix::process::Signal::CONT,
        };
        kill_process(Pid::from_child(&self.process), signal)
            .map_err(|error| Failure::new(format!("{}: {error}", self.label)))
    }

    #[cfg(not(unix))]
    fn signal(&self, signal: Signal) -> Outcome {
        Err(Failure::new(format!("cannot send {signal:?} to {} on this system", self.label)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Signal {
    Stop,
    GoOn,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}
