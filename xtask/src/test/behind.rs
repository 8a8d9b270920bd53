//! Steps that need nothing but the processor, run behind those that mostly wait for servers: as another `cargo xtask
//! test`, of the lowest priority and, on Linux, on one processor, so that whatever is timed finds another. When it is
//! done, its output is shown and its score is added.

use std::env;
use std::fs;
use std::thread::{self, JoinHandle};

use super::Job;
use crate::call::{Call, Outcome};
use crate::tally::Tally;
use crate::trouble::{Result, While};

const LIMIT: u64 = 40 * 60;

pub(super) struct Behind(JoinHandle<Result<Outcome>>);

impl Behind {
    /// Only Unix has `nice`.
    pub(super) const CAN_BE: bool = cfg!(unix);

    pub(super) fn start<'a>(job: &Job, steps: impl Iterator<Item = &'a str>) -> Result<Self> {
        let program = env::current_exe().when(|| "find this program".to_owned())?;
        let mut call = least().args(["-n", "19"]).arg(program).arg("test");
        for step in steps {
            println!("\n== {step}: goes on behind the next steps");
            call = call.args(["--only", step]);
        }
        if job.deep {
            call = call.arg("--deep");
        }
        let call = call.dir(&job.workspace.root).limit(job.limit(LIMIT));
        Ok(Self(thread::spawn(|| call.run())))
    }

    /// Waits for it.
    pub(super) fn end(self, tally: &mut Tally) -> Result<()> {
        let outcome = self.0.join().map_err(|_| "what ran behind has panicked")??;
        println!("{}", outcome.text);
        if tally.add(&outcome.stdout) { Ok(()) } else { Err(outcome.trouble()) }
    }
}

/// `nice`, on one processor where that can be said: all that it starts sees only that one.
fn least() -> Call {
    match last_processor() {
        Some(last) => Call::new("taskset").args(["--cpu-list", &last, "nice"]),
        None => Call::new("nice"),
    }
}

/// The last of those that we may use. None: that is not known here.
fn last_processor() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    allowed.trim().rsplit([',', '-']).next().map(str::to_owned)
}
