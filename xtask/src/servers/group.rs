//! A deployment while it is being started: its folder, its processes, and the waits between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::clock;
use super::life::Life;
use super::port;
use super::process::{self, Process};
use super::recipe::Recipe;
use super::state::State;
use crate::place;
use crate::trouble::{Result, While};

const GLANCE: Duration = Duration::from_millis(50);

pub(super) struct Group {
    home: PathBuf,
    state: State,
    pub(super) life: Life,
}

impl Group {
    pub(super) fn new(home: &Path, name: &str, life: Life) -> Result<Self> {
        let folder = place::fresh_folder(name)?;
        let state = State { name: name.to_owned(), folder, ..State::default() };
        state.save(home)?;
        Ok(Self { home: home.to_owned(), state, life })
    }

    /// The folder of files that all deployments share.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Free ports, which are this deployment's until it is stopped.
    pub(super) fn ports<const N: usize>(&self) -> Result<[u16; N]> {
        port::free(&self.state.folder)
    }

    /// Creates a folder for one process.
    pub(super) fn folder(&self, role: &str) -> Result<PathBuf> {
        let path = self.state.folder.join(role);
        fs::create_dir_all(&path).when(|| format!("make the folder {}", path.display()))?;
        Ok(path)
    }

    /// Gives a server a clock that can be stepped, if possible.
    pub(super) fn equip_clock(&self, role: &str, command: &mut Command) -> Result<()> {
        clock::equip(&self.home, &self.folder(role)?, command)
    }

    /// Starts a process that outlives this program, and records it.
    pub(super) fn spawn(&mut self, role: &str, port: u16, command: &Command) -> Result<()> {
        let process = Process::spawn(role, port, Recipe::of(command), &self.state.log(role))?;
        let process =
            process.ok_or_else(|| format!("{role} ended at once:\n{}", self.state.log_tail(role)))?;
        self.state.processes.push(process);
        self.state.save(&self.home)
    }

    /// Waits for a condition. Fails at the limit, or when a process has died.
    pub(super) fn wait(&self, what: &str, limit: Duration, done: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !done() {
            if let Some(dead) = self.dead() {
                return Err(format!("{} has ended:\n{}", dead.role, self.state.log_tail(&dead.role)).into());
            }
            if start.elapsed() > limit {
                let first = self.state.processes.first().map_or("", |process| process.role.as_str());
                let tail = self.state.log_tail(first);
                return Err(format!("{what}: not ready within {} s:\n{tail}", limit.as_secs()).into());
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    pub(super) fn someone_died(&self) -> bool {
        self.dead().is_some()
    }

    /// The deployment serves: completes its state file.
    pub(super) fn keep(mut self, url: String) -> Result<String> {
        self.state.url.clone_from(&url);
        self.state.save(&self.home)?;
        Ok(url)
    }

    /// The deployment does not serve: ends its processes and leaves nothing behind.
    pub(super) fn end(self) -> Result<()> {
        process::end_all(&self.state)?;
        self.state.forget(&self.home)
    }

    fn dead(&self) -> Option<&Process> {
        self.state.processes.iter().find(|process| !process.is_alive())
    }
}
