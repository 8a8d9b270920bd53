//! A server's process, told apart from a stranger that was given the same pid later.
//!
//! A pid alone names nobody: it comes back. With the moment of the process's birth it does, so both are noted,
//! and a signal is sent only while they agree.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::state::State;
use crate::trouble::{Result, While};

/// How long a server has to end by itself. MariaDB flushes; the others need milliseconds.
const PATIENCE: Duration = Duration::from_secs(15);
const GLANCE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) role: String,
    pub(super) port: u16,
    pub(super) pid: u32,
    /// In the system's own words; only ever compared.
    pub(super) birth: String,
}

impl Process {
    pub(super) fn is_alive(&self) -> bool {
        birth(self.pid).is_some_and(|birth| birth == self.birth)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        if self.is_alive() {
            let pid = self.pid.to_string();
            Command::new("kill").args([signal, &pid]).output().when(|| format!("run kill {signal} {pid}"))?;
        }
        Ok(())
    }
}

/// Ends every process of a deployment, the last started first.
pub(super) fn end_all(state: &State) -> Result<()> {
    for process in state.processes.iter().rev() {
        process.signal("-TERM")?;
        process.signal("-CONT")?; // one that a trial has paused would not hear the first
    }
    if !all_gone(state, PATIENCE) {
        for process in &state.processes {
            process.signal("-KILL")?;
        }
        if !all_gone(state, PATIENCE) {
            return Err(format!("a process of {} does not end, not even by kill -KILL", state.name).into());
        }
    }
    Ok(())
}

fn all_gone(state: &State, within: Duration) -> bool {
    let start = Instant::now();
    while state.processes.iter().any(Process::is_alive) {
        if start.elapsed() > within {
            return false;
        }
        thread::sleep(GLANCE);
    }
    true
}

/// When a process was born; None when there is no such process, or only its remains.
pub(super) fn birth(pid: u32) -> Option<String> {
    if cfg!(target_os = "linux") {
        return birth_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    }
    let asked = Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).output().ok()?;
    let line = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    let (condition, birth) = line.split_once(' ')?;
    (!condition.starts_with('Z')).then(|| birth.trim().to_owned())
}

/// Field 22 of /proc/PID/stat, in ticks since boot. The program's name, field 2, may itself hold blanks and
/// brackets, so counting begins behind its last bracket.
fn birth_in(stat: &str) -> Option<String> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let condition = fields.first()?;
    if ["Z", "X"].contains(condition) {
        return None;
    }
    fields.get(19).map(|ticks| (*ticks).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_is_read_behind_any_name() {
        let rest = "1 1 0 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8675309 1 2";
        assert_eq!(birth_in(&format!("7 (a (b) c) S {rest}")).as_deref(), Some("8675309"));
        assert_eq!(birth_in(&format!("7 (gone) Z {rest}")), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_with_another_birth_is_not_ours() {
        let me = std::process::id();
        let mut process = Process { role: "me".into(), port: 0, pid: me, birth: birth(me).unwrap() };
        assert!(process.is_alive());
        process.birth.push('9');
        assert!(!process.is_alive());
    }
}
