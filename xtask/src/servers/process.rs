//! A server's process, which must not be confused with another that later gets the same pid.
//!
//! A pid alone is not unique: the system reuses it. So the process's time of birth is recorded too, and a signal is
//! sent only while both match. The record also says how to start the process again.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::recipe::Recipe;
use super::state::State;
use crate::trouble::{Result, While};

/// How long a server has to end by itself. MariaDB flushes its data; the others need milliseconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the system has to carry out a signal that a process cannot ignore.
const AT_ONCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) role: String,
    pub(super) port: u16,
    pub(super) pid: u32,
    /// In the system's own format; only compared.
    pub(super) birth: String,
    pub(super) recipe: Recipe,
}

impl Process {
    /// Starts a process that outlives this program. Its output is appended to its log. None: it ended at once.
    pub(super) fn spawn(role: &str, port: u16, recipe: Recipe, log: &Path) -> Result<Option<Self>> {
        let out = OpenOptions::new().create(true).append(true).open(log);
        let out = out.when(|| format!("write {}", log.display()))?;
        let err = out.try_clone().when(|| format!("write {}", log.display()))?;
        let mut command = recipe.command();
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        #[cfg(unix)]
        {
            // A process group of its own: Ctrl-C at the terminal is meant for xtask, not for the servers.
            use std::os::unix::process::CommandExt;
            command.process_group(0);
        }
        let mut child = command.spawn().when(|| format!("start {}", recipe.program))?;
        let pid = child.id();
        let Some(birth) = birth(pid) else {
            let _ = child.wait();
            return Ok(None);
        };
        Ok(Some(Self { role: role.to_owned(), port, pid, birth, recipe }))
    }

    pub(super) fn is_alive(&self) -> bool {
        birth(self.pid).is_some_and(|birth| birth == self.birth)
    }

    /// Asks it to end and waits until it has. A paused process gets the signal first, and is then resumed.
    pub(super) fn stop(&self) -> Result<()> {
        self.signal("-TERM")?;
        self.signal("-CONT")?;
        self.settle("stop", PATIENCE, || !self.is_alive())
    }

    /// Ends it at once, like a power cut.
    pub(super) fn kill(&self) -> Result<()> {
        self.signal("-KILL")?;
        self.settle("end", AT_ONCE, || !self.is_alive())
    }

    pub(super) fn pause(&self) -> Result<()> {
        self.signal("-STOP")?;
        self.settle("pause", AT_ONCE, || !self.is_alive() || self.is_paused())
    }

    pub(super) fn resume(&self) -> Result<()> {
        self.signal("-CONT")?;
        self.settle("resume", AT_ONCE, || !self.is_paused())
    }

    fn is_paused(&self) -> bool {
        condition_and_birth(self.pid)
            .is_some_and(|(condition, birth)| condition.starts_with('T') && birth == self.birth)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        if self.is_alive() {
            let pid = self.pid.to_string();
            Command::new("kill").args([signal, &pid]).output().when(|| format!("run kill {signal} {pid}"))?;
        }
        Ok(())
    }

    fn settle(&self, what: &str, limit: Duration, done: impl Fn() -> bool) -> Result<()> {
        if within(limit, done) {
            return Ok(());
        }
        Err(format!("{} did not {what} within {} s", self.role, limit.as_secs()).into())
    }
}

/// Ends every process of a deployment, the last started first.
pub(super) fn end_all(state: &State) -> Result<()> {
    for process in state.processes.iter().rev() {
        process.signal("-TERM")?;
        process.signal("-CONT")?; // a process that a trial has paused handles it only now
    }
    let all_gone = || !state.processes.iter().any(Process::is_alive);
    if !within(PATIENCE, all_gone) {
        for process in &state.processes {
            process.signal("-KILL")?;
        }
        if !within(PATIENCE, all_gone) {
            return Err(format!("a process of {} does not end, not even with kill -KILL", state.name).into());
        }
    }
    Ok(())
}

fn within(limit: Duration, done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(GLANCE);
    }
    true
}

/// A process's time of birth. None: there is no such process, or only a zombie.
fn birth(pid: u32) -> Option<String> {
    condition_and_birth(pid).map(|(_, birth)| birth)
}

/// A process's condition (T: paused) and time of birth.
fn condition_and_birth(pid: u32) -> Option<(String, String)> {
    let (condition, birth) = if cfg!(target_os = "linux") {
        read_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?
    } else {
        let asked = Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).output().ok()?;
        let line = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        let (condition, birth) = line.split_once(' ')?;
        (condition.to_owned(), birth.trim().to_owned())
    };
    (!condition.starts_with(['Z', 'X'])).then_some((condition, birth))
}

/// Fields 3 and 22 of /proc/PID/stat: the condition, and the birth in ticks since boot. Field 2, the program's name,
/// may contain blanks and brackets, so counting begins after its last bracket.
fn read_stat(stat: &str) -> Option<(String, String)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().map(str::to_owned);
    Some((fields.next()?, fields.nth(18)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    #[test]
    fn a_birth_is_read_behind_any_name() {
        let rest = "1 1 0 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8675309 1 2";
        let read = read_stat(&format!("7 (a (b) c) S {rest}"));
        assert_eq!(read, Some(("S".into(), "8675309".into())));
        assert_eq!(read_stat("7 (a) S 1"), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_with_another_birth_is_not_ours() {
        let me = std::process::id();
        let recipe = Recipe::default();
        let mut process = Process { role: "me".into(), port: 0, pid: me, birth: birth(me).unwrap(), recipe };
        assert!(process.is_alive());
        process.birth.push('9');
        assert!(!process.is_alive());
    }

    #[test]
    #[cfg(unix)]
    fn a_process_is_paused_resumed_stopped_and_killed() {
        let folder = Scratch::new("process").unwrap();
        let spawn = || {
            let mut command = Command::new("sleep");
            let recipe = Recipe::of(command.arg("60").current_dir(folder.path()));
            Process::spawn("sleeper", 0, recipe, &folder.path().join("log")).unwrap().unwrap()
        };
        let sleeper = spawn();
        sleeper.pause().unwrap();
        assert!(sleeper.is_alive() && sleeper.is_paused());
        sleeper.resume().unwrap();
        assert!(sleeper.is_alive() && !sleeper.is_paused());
        sleeper.pause().unwrap();
        sleeper.stop().unwrap();
        assert!(!sleeper.is_alive());
        let sleeper = spawn();
        sleeper.kill().unwrap();
        assert!(!sleeper.is_alive());
    }
}
