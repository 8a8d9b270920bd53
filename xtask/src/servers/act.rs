//! `cargo xtask servers act`: acts on one process of a running deployment, for a trial.
//!
//! The suite calls this during a trial, so it must be quick. It takes all it needs from the state file, and waits only
//! for its own action. It locks only the state file, and only while it starts and records a process. The program that
//! runs the suite does not hold that lock.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::process::Process;
use super::state::State;
use super::{Deployment, clock, find, known, port};
use crate::trouble::{Result, While};

/// How long a server may take to serve again; Java starts slowly.
const LIMIT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Act {
    deployment: &'static Deployment,
    role: String,
    verb: Verb,
}

#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Stop,
    Kill,
    Start,
    Pause,
    Resume,
    Clock { offset_ms: i64 },
}

impl Act {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let [deployment, role, verb @ ..] = words else {
            return Err("act on which member? `cargo xtask servers act NAME MEMBER VERB`".into());
        };
        Ok(Self { deployment: find(deployment)?, role: (*role).to_owned(), verb: Verb::parse(verb)? })
    }

    pub(super) fn run(&self, home: &Path) -> Result<()> {
        let state = known(home, self.deployment)?;
        let process = state.process(&self.role)?;
        match &self.verb {
            Verb::Stop => process.stop(),
            Verb::Kill => process.kill(),
            Verb::Start => self.start(home),
            Verb::Pause => up(process)?.pause(),
            Verb::Resume => up(process)?.resume(),
            Verb::Clock { offset_ms } => clock::set(home, process, *offset_ms),
        }
    }

    fn start(&self, home: &Path) -> Result<()> {
        // On a busy machine the last threads of a killed process may hold its ports for a moment.
        let left = known(home, self.deployment)?.process(&self.role)?.clone();
        let ended = Instant::now();
        while !left.is_alive() && !port::is_unused(left.port) && ended.elapsed() < LIMIT {
            thread::sleep(GLANCE);
        }
        let process = {
            let _alone = State::lock(home, self.deployment.name)?;
            let mut state = known(home, self.deployment)?;
            state.start(&self.role)?;
            state.save(home)?;
            state.process(&self.role)?.clone()
        };
        let began = Instant::now();
        while !(self.deployment.serves)(&process.role, process.port) {
            if !process.is_alive() || began.elapsed() > LIMIT {
                let tail = known(home, self.deployment)?.log_tail(&self.role);
                return Err(format!("{} does not serve again:\n{tail}", self.role).into());
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }
}

impl Verb {
    fn parse(words: &[&str]) -> Result<Self> {
        Ok(match words {
            ["stop"] => Self::Stop,
            ["kill"] => Self::Kill,
            ["start"] => Self::Start,
            ["pause"] => Self::Pause,
            ["resume"] => Self::Resume,
            ["clock", offset] => Self::Clock {
                offset_ms: offset.parse().when(|| format!("step a clock by `{offset}` milliseconds"))?,
            },
            _ => {
                let said = words.join(" ");
                return Err(format!(
                    "there is no act `{said}`; use stop, kill, start, pause, resume, or clock MILLISECONDS"
                )
                .into());
            }
        })
    }
}

fn up(process: &Process) -> Result<&Process> {
    if process.is_alive() { Ok(process) } else { Err(format!("{} is down", process.role).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_read_word_by_word() {
        let act = Act::parse(&["redis-sentinel", "replica-1", "clock", "-5000"]).unwrap();
        assert_eq!((act.deployment.name, act.role.as_str()), ("redis-sentinel", "replica-1"));
        assert_eq!(act.verb, Verb::Clock { offset_ms: -5000 });
        assert_eq!(Verb::parse(&["clock", "+250"]).unwrap(), Verb::Clock { offset_ms: 250 });
        assert_eq!(Verb::parse(&["pause"]).unwrap(), Verb::Pause);
    }

    #[test]
    fn nonsense_is_refused_in_a_sentence() {
        let trouble = |words: &[&str]| Act::parse(words).unwrap_err().to_string();
        assert!(trouble(&["redis"]).starts_with("act on which member?"));
        assert!(trouble(&["memcached", "server", "kill"]).starts_with("there is no server `memcached`"));
        assert!(trouble(&["redis", "server", "tickle"]).starts_with("there is no act `tickle`"));
        assert!(trouble(&["redis", "server", "clock", "soon"]).starts_with("cannot step a clock by `soon`"));
    }
}
