//! Asks the program that started the servers to act on them: one call for each act and member.
//!
//! This remembers which servers were stopped or paused, so they are repaired even after a trial that never ended.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_core::{Error, ErrorKind, Result};

/// The program that acts on the servers of one deployment. It is called as `PROGRAM servers act DEPLOYMENT MEMBER VERB
/// [ARG]`, and as `PROGRAM servers members DEPLOYMENT`, which prints one line for each server: its name and its port.
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
    /// How far the servers' clock is from real time, in milliseconds.
    clock: i64,
}

impl Control {
    /// The control of a deployment, by the name that its program has for it.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, deployment: &str) -> Self {
        Self { program: program.into(), deployment: deployment.to_owned(), state: Mutex::default() }
    }

    /// The names of the processes, each with its port.
    ///
    /// # Errors
    /// The error of the program.
    pub async fn members(&self) -> Result<Vec<(String, u16)>> {
        let said = self.call(vec!["members".to_owned(), self.deployment.clone()]).await?;
        let member = |line: &str| {
            let (role, rest) = line.split_once(' ')?;
            Some((role.to_owned(), rest.split(' ').next()?.parse().ok()?))
        };
        Ok(said.lines().filter_map(member).collect())
    }

    /// Shuts servers down cleanly.
    ///
    /// # Errors
    /// The error of the program.
    pub async fn stop(&self, members: &[String]) -> Result<()> {
        self.state().stopped.extend_from_slice(members);
        self.tell(members, "stop", None).await
    }

    /// Kills servers.
    ///
    /// # Errors
    /// The error of the program.
    pub async fn kill(&self, members: &[String]) -> Result<()> {
        self.state().stopped.extend_from_slice(members);
        self.tell(members, "kill", None).await
    }

    /// Pauses servers' processes until [`Self::resume`].
    ///
    /// # Errors
    /// The error of the program.
    pub async fn pause(&self, members: &[String]) -> Result<()> {
        self.state().paused.extend_from_slice(members);
        self.tell(members, "pause", None).await
    }

    /// Resumes every paused process.
    ///
    /// # Errors
    /// The error of the program.
    pub async fn resume(&self) -> Result<()> {
        let paused = std::mem::take(&mut self.state().paused);
        self.tell(&paused, "resume", None).await
    }

    /// Moves the servers' clock by this much, forward or back.
    ///
    /// # Errors
    /// The error of the program.
    pub async fn step_clock(&self, members: &[String], by: Duration, is_later: bool) -> Result<()> {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let offset = {
            let mut state = self.state();
            state.clock =
                if is_later { state.clock.saturating_add(by) } else { state.clock.saturating_sub(by) };
            state.clock
        };
        self.tell(members, "clock", Some(offset)).await
    }

    /// Makes all servers run again. Clocks stay as they are: setting one back would be another step. Returns whether
    /// there was anything to do.
    pub(super) async fn mend(&self) -> Result<bool> {
        let had_paused = !self.state().paused.is_empty();
        self.resume().await?;
        let stopped = std::mem::take(&mut self.state().stopped);
        self.tell(&stopped, "start", None).await?;
        Ok(had_paused || !stopped.is_empty())
    }

    /// Calls the program for all members at once.
    async fn tell(&self, members: &[String], verb: &str, by: Option<i64>) -> Result<()> {
        let words = |member: &String| {
            let words = ["act", &self.deployment, member, verb].map(str::to_owned);
            words.into_iter().chain(by.map(|by| by.to_string())).collect()
        };
        let told: Vec<_> = members.iter().map(|member| tokio::spawn(self.call(words(member)))).collect();
        for told in told {
            told.await.map_err(|error| {
                Error::new(ErrorKind::Unavailable, "the task that calls the control program failed")
                    .because(error)
            })??;
        }
        Ok(())
    }

    /// The output of `PROGRAM servers WORDS`.
    fn call(&self, words: Vec<String>) -> impl Future<Output = Result<String>> + Send + use<> {
        let what = format!("`{}` failed at: {}", self.program.display(), words.join(" "));
        let mut command = Command::new(&self.program);
        command.arg("servers").args(words).stdin(Stdio::null());
        async move {
            let failed = |why: String| Error::new(ErrorKind::Unavailable, format!("{what}: {why}"));
            let called = tokio::task::spawn_blocking(move || command.output()).await;
            let output = called
                .map_err(|error| failed(error.to_string()))?
                .map_err(|error| failed(error.to_string()))?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
                false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
