//! Runs steps that only compute while others mostly wait.
//!
//! They are a process of their own, which gets a processor when nobody else wants it. What it prints is printed when it
//! has ended, and its score is added.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Job, Step};
use crate::call::{Call, Outcome};
use crate::place;
use crate::progress;
use crate::score::Score;
use crate::setup::packages;
use crate::tally::Tally;
use crate::trouble::Result;

/// In front of the end of what a run prints, which is only read here.
const SUMMARY: &str = "\n== summary ";

/// The steps that are under way.
pub(super) struct Meanwhile {
    names: String,
    run: JoinHandle<Result<Outcome>>,
}

impl Meanwhile {
    pub(super) fn begin(job: &Job, steps: &[&Step]) -> Result<Self> {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        let call = patient(&place::own_program()?.to_string_lossy()).arg("test").dir(&job.workspace.root);
        let call = names.iter().fold(call, |call, name| call.args(["--only", name]));
        let call = if job.deep { call.arg("--deep") } else { call }.limit(job.limit(3600));
        println!("\n(meanwhile: {})", names.join(", "));
        Ok(Self { names: names.join(", "), run: thread::spawn(|| call.run()) })
    }

    /// Waits for their end, and prints what they have printed. Returns how long each took.
    pub(super) fn end(self, tally: &mut Tally) -> Vec<(String, Duration)> {
        progress::begin(Some(self.names.clone()));
        let outcome = self.run.join().unwrap_or_else(|_| Err("it panicked".into()));
        let told = outcome.and_then(|outcome| {
            let (steps, summary) = outcome.stdout.split_once(SUMMARY).unwrap_or((&outcome.stdout, ""));
            println!("{steps}");
            let score = Score::of(&outcome.stdout).ok_or_else(|| outcome.trouble())?;
            add(score, summary, tally);
            Ok(times(steps))
        });
        told.unwrap_or_else(|trouble| {
            println!("{trouble}");
            tally.fail(format!("{}: {}", self.names, trouble.first_line()));
            Vec::new()
        })
    }
}

/// A program that leaves the processors to others.
fn patient(program: &str) -> Call {
    // Linux lets what is merely nice finish its slice first: each answer of a server then came milliseconds later.
    if cfg!(target_os = "linux") && packages::find("chrt").is_some() {
        return Call::new("chrt").args(["--idle", "0", program]);
    }
    if cfg!(unix) { Call::new("nice").args(["-n", "19", program]) } else { Call::new(program) }
}

fn add(score: Score, summary: &str, tally: &mut Tally) {
    tally.pass(score.passed);
    tally.skip(score.skipped);
    let failures: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("failed: ")).collect();
    let unnamed = score.failed.saturating_sub(failures.len() as u64);
    failures.into_iter().for_each(|failure| tally.fail(failure));
    if unnamed > 0 {
        tally.fail_many(unnamed, format!("{unnamed} more"));
    }
}

/// The lines `-- platforms passed in 12.9 s`.
fn times(output: &str) -> Vec<(String, Duration)> {
    let ends = output.lines().filter_map(|line| line.strip_prefix("-- ")?.strip_suffix(" s"));
    let time = |end: &str| {
        let (step, seconds) = (end.split(' ').next()?, end.rsplit(' ').next()?.parse().ok()?);
        Some((step.to_owned(), Duration::try_from_secs_f32(seconds).ok()?))
    };
    ends.filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_the_steps_are_read() {
        let output = "== pages: x\nok a\n-- pages passed in 78.5 s\n\n-- package FAILED in 2.0 s\n-- x\n";
        let expected = [("pages", 78_500), ("package", 2_000)];
        let expected = expected.map(|(step, ms)| (step.to_owned(), Duration::from_millis(ms)));
        assert_eq!(times(output), expected);
    }

    #[test]
    fn the_score_and_the_failures_are_added() {
        let mut tally = Tally::default();
        let score = Score { passed: 7, failed: 2, skipped: 1 };
        add(score, "(9 s)\npages   1.0 s\nfailed: code block README.md, line 3\n7 passed", &mut tally);
        let summary = tally.summary();
        assert!(summary.starts_with("failed: code block README.md, line 3\nfailed: 1 more\n"), "{summary}");
        assert!(summary.ends_with("7 passed, 2 failed, 1 skipped"), "{summary}");
    }
}
