//! A deployment while it is being started: its folder, its processes, and the waits between them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::process::{self, Process};
use super::state::State;
use crate::place;
use crate::trouble::{Result, While};

const GLANCE: Duration = Duration::from_millis(50);

pub(super) struct Group {
    home: PathBuf,
    state: State,
}

impl Group {
    pub(super) fn new(home: &Path, name: &str) -> Result<Self> {
        let folder = place::fresh_folder(name)?;
        let state = State { name: name.to_owned(), folder, ..State::default() };
        state.save(home)?;
        Ok(Self { home: home.to_owned(), state })
    }

    /// A folder of its own for one process.
    pub(super) fn folder(&self, role: &str) -> Result<PathBuf> {
        let path = self.state.folder.join(role);
        fs::create_dir_all(&path).when(|| format!("make the folder {}", path.display()))?;
        Ok(path)
    }

    /// Starts a process that outlives us, and notes it.
    pub(super) fn spawn(&mut self, role: &str, port: u16, command: &mut Command) -> Result<()> {
        let log = self.log(role);
        let out = File::create(&log).when(|| format!("write {}", log.display()))?;
        let err = out.try_clone().when(|| format!("write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        #[cfg(unix)]
        {
            // A group of its own: Ctrl-C at the terminal is meant for us, not for the servers.
            use std::os::unix::process::CommandExt;
            command.process_group(0);
        }
        let program = Path::new(command.get_program()).display().to_string();
        let mut child = command.spawn().when(|| format!("start {program}"))?;
        let pid = child.id();
        let Some(birth) = process::birth(pid) else {
            let _ = child.wait();
            return Err(format!("{role} ended at once:\n{}", self.log_tail(role)).into());
        };
        self.state.processes.push(Process { role: role.to_owned(), port, pid, birth });
        self.state.save(&self.home)
    }

    /// Waits for a condition, but not past the limit, and not when a process has died.
    pub(super) fn wait(&self, what: &str, limit: Duration, done: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !done() {
            if let Some(dead) = self.dead() {
                return Err(format!("{} has ended:\n{}", dead.role, self.log_tail(&dead.role)).into());
            }
            if start.elapsed() > limit {
                let first = self.state.processes.first().map_or("", |process| process.role.as_str());
                let tail = self.log_tail(first);
                return Err(format!("{what} did not come within {} s:\n{tail}", limit.as_secs()).into());
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    pub(super) fn someone_died(&self) -> bool {
        self.dead().is_some()
    }

    /// It serves: from here on the state file speaks for it.
    pub(super) fn keep(mut self, url: String) -> Result<String> {
        self.state.url.clone_from(&url);
        self.state.save(&self.home)?;
        Ok(url)
    }

    /// It does not: leave nothing behind.
    pub(super) fn end(self) -> Result<()> {
        process::end_all(&self.state)?;
        self.state.forget(&self.home)
    }

    fn dead(&self) -> Option<&Process> {
        self.state.processes.iter().find(|process| !process.is_alive())
    }

    fn log(&self, role: &str) -> PathBuf {
        self.state.folder.join(format!("{role}.log"))
    }

    fn log_tail(&self, role: &str) -> String {
        let bytes = fs::read(self.log(role)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }
}
