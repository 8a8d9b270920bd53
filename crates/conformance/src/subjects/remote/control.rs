//! Whoever has started the server, asked to do something to it: a program, once for each act.
//!
//! What was stopped or paused is known here, so that it is mended even after a trial that never came to its end.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::{Error, ErrorKind, Result};

/// The program that acts on the servers of one deployment: `PROGRAM servers act DEPLOYMENT MEMBER VERB [ARG]`.
#[derive(Debug)]
pub struct Control {
    program: PathBuf,
    deployment: String,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    stopped: Vec<String>,
    paused: Vec<String>,
    /// How far the servers' clock is from the real time, in milliseconds.
    clock: i64,
}

impl Control {
    /// The control of a deployment, as its program calls it.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, deployment: &str) -> Self {
        Self { program: program.into(), deployment: deployment.to_owned(), state: Mutex::default() }
    }

    /// Stops a server in good order.
    pub(super) async fn stop(&self, member: &str) -> Result<()> {
        self.state().stopped.push(member.to_owned());
        self.tell(member, "stop", None).await
    }

    /// Kills a server.
    pub(super) async fn kill(&self, member: &str) -> Result<()> {
        self.state().stopped.push(member.to_owned());
        self.tell(member, "kill", None).await
    }

    /// Stops a server's process for a while.
    pub(super) async fn pause(&self, member: &str) -> Result<()> {
        self.state().paused.push(member.to_owned());
        self.tell(member, "pause", None).await
    }

    /// Sets the clock of a server by so much, later or earlier.
    pub(super) async fn step_clock(&self, member: &str, by: Duration, is_later: bool) -> Result<()> {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let offset = {
            let mut state = self.state();
            state.clock =
                if is_later { state.clock.saturating_add(by) } else { state.clock.saturating_sub(by) };
            state.clock
        };
        self.tell(member, "clock", Some(offset)).await
    }

    /// Everything runs again. Clocks stay as they are: setting one back would be one more step.
    pub(super) async fn mend(&self) -> Result<()> {
        let (paused, stopped) = {
            let mut state = self.state();
            (std::mem::take(&mut state.paused), std::mem::take(&mut state.stopped))
        };
        for member in paused {
            self.tell(&member, "resume", None).await?;
        }
        for member in stopped {
            self.tell(&member, "start", None).await?;
        }
        Ok(())
    }

    async fn tell(&self, member: &str, verb: &'static str, by: Option<i64>) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["servers", "act", &self.deployment, member, verb]).args(by.map(|by| by.to_string()));
        command.stdin(Stdio::null());
        let told = tokio::task::spawn_blocking(move || command.output()).await;
        let what = format!("{} could not {verb} {member}", self.program.display());
        let failed = |why: String| Error::new(ErrorKind::Unavailable, format!("{what}: {why}"));
        let output =
            told.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
