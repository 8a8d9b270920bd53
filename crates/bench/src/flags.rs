//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::Result;
use crate::place::Place;
use crate::scenario::{Plan, SCENARIOS};
use crate::worker::WorkerTask;

pub(crate) const HELP: &str = "\
Measures Tidelock on a backend, beside the store's bare commands in the same run.

Usage: bench [--url URL] [--scenario NAME]… [--slices N] [--linger MS] [--short] [--json FILE]

  --url URL        the server, if the backend has one; no other program should use it meanwhile
  --namespace NAME the prefix of everything that this run writes to the store. Default tidelock-bench-PID
  --scenario NAME  only this scenario; can be given several times
  --slices N       slices of each side; the figures are their medians. Default 9; use at least 5
  --linger MS      for how long `cohort` passes a hold on within a client, in milliseconds. Default 10
  --short          short slices and small crowds: shows that the program works, and measures little
  --json FILE      also writes every figure of every slice as JSON

Scenarios:
  own      n tasks, each its own name
  hot      n tasks, one name; one and two clients
  handoff  one gives back while another waits, with none and with 1 000 more in line behind it
  procs    n processes, one name
  sale     10 in stock, 100 000 buyers: read, decrement, write under the lock
  held     100 000 names held by one client: bytes, renewal, and the cost for tasks that take other names
  cohort   n tasks, one name, the hold passed on within a client; beside linger zero; 100 000 buyers of one client
  crowds   4 processes, 16 tasks each, one name, sections of 0, 1 and 20 ms: shares and waits for each linger
";

/// The median of fewer slices says little.
const SLICES: usize = 9;
const LINGER: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) url: Option<String>,
    pub(crate) namespace: String,
    pub(crate) json: Option<PathBuf>,
    pub(crate) short: bool,
    pub(crate) slices: usize,
    linger: Duration,
    pub(crate) help: bool,
    /// Set in a process that another one starts.
    pub(crate) worker: Option<WorkerTask>,
    scenarios: Vec<String>,
}

impl Flags {
    pub(crate) fn read() -> Result<Self> {
        Self::parse(lexopt::Parser::from_env())
    }

    pub(crate) fn place(&self) -> Place {
        Place { url: self.url.clone(), namespace: self.namespace.clone() }
    }

    pub(crate) fn wants(&self, scenario: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|wanted| wanted == scenario)
    }

    pub(crate) fn plan(&self) -> Plan {
        let whole = Plan {
            slices: self.slices,
            slice: Duration::from_millis(300),
            hand_offs: 1_000,
            long_hand_offs: 250,
            parked: 1_000,
            buyers: 100_000,
            names: 100_000,
            held: 10_000,
            linger: self.linger,
            crowd_slice: Duration::from_secs(2),
        };
        let small = Plan {
            slice: Duration::from_millis(30),
            hand_offs: 100,
            long_hand_offs: 25,
            buyers: 10_000,
            names: 2_000,
            held: 500,
            crowd_slice: Duration::from_millis(50),
            ..whole
        };
        if self.short { small } else { whole }
    }

    fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let mut flags = Self {
            url: None,
            namespace: format!("tidelock-bench-{}", std::process::id()),
            json: None,
            short: false,
            slices: SLICES,
            linger: LINGER,
            help: false,
            worker: None,
            scenarios: Vec::new(),
        };
        while let Some(flag) = parser.next()? {
            match flag {
                Long("url") => flags.url = Some(parser.value()?.string()?),
                Long("namespace") => flags.namespace = parser.value()?.string()?,
                Long("scenario") => flags.scenarios.push(known(parser.value()?.string()?)?),
                Long("slices") => flags.slices = parser.value()?.parse::<usize>()?.max(1),
                Long("linger") => flags.linger = Duration::from_millis(parser.value()?.parse()?),
                Long("short") => flags.short = true,
                Long("json") => flags.json = Some(parser.value()?.into()),
                Long("worker") => flags.worker = Some(WorkerTask::parse(&parser.value()?.string()?)?),
                Long("bench") => {} // cargo's own word to every benchmark
                Long("help") | Short('h') => flags.help = true,
                other => return Err(format!("{}; `--help` shows what there is", other.unexpected()).into()),
            }
        }
        Ok(flags)
    }
}

fn known(scenario: String) -> Result<String> {
    if SCENARIOS.contains(&scenario.as_str()) {
        return Ok(scenario);
    }
    Err(format!("there is no scenario `{scenario}`; there are: {}", SCENARIOS.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Flags> {
        Flags::parse(lexopt::Parser::from_iter(["bench"].iter().chain(words)))
    }

    #[test]
    fn everything_runs_unless_something_is_chosen() {
        let flags = parse(&["--scenario", "own", "--scenario", "sale", "--slices", "5"]).unwrap();
        assert!(flags.wants("own") && flags.wants("sale") && !flags.wants("hot"));
        assert_eq!((flags.plan().slices, flags.plan().buyers), (5, 100_000));
        assert!(parse(&[]).unwrap().wants("hot"));
    }

    #[test]
    fn linger_is_in_milliseconds() {
        let linger = |words| parse(words).unwrap().plan().linger;
        assert_eq!(linger(&["--linger", "3"]), Duration::from_millis(3));
        assert_eq!(linger(&["--short"]), Duration::from_millis(10));
        assert!(parse(&["--linger", "soon"]).is_err());
    }

    #[test]
    fn what_there_is_not_is_one_sentence_that_names_what_there_is() {
        let error = parse(&["--scenario", "owns"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no scenario `owns`; there are: own, hot, handoff, procs, sale, held, cohort, crowds"
        );
    }
}
