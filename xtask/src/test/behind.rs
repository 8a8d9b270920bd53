//! Steps that need nothing but the processor, run behind those that mostly wait for servers: as another `cargo xtask
//! test`, of the lowest priority, so that whatever is timed goes first. When it is done, its output is shown and its
//! score is added.

use std::env;
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
        let mut call = Call::new("nice").args(["-n", "19"]).arg(program).arg("test");
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
