//! The contract on memory, the proof that the suite can fail, and the table that README.md makes of it.

use std::time::Duration;

use super::Job;
use crate::call::{Call, Outcome, Show};
use crate::conformance::{Suite, WITH_THE_TESTS};
use crate::guarantees;
use crate::score::Score;
use crate::tally::Tally;
use crate::trouble::Result;

/// The one that needs no server.
const BACKEND: &str = "memory";

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let suite = Suite::build(&job.workspace, WITH_THE_TESTS)?;
    let report = suite.report(BACKEND);
    let call = suite.call().args(["--backend", BACKEND, "--report"]).arg(&report);
    let call = if job.deep { call.arg("--deep") } else { call };
    count(&play(job, call)?, tally)?;
    count(&play(job, suite.call().arg("--prove"))?, tally)?;
    guarantees::check(&job.workspace.root, &suite.table(&[report])?)?;
    tally.pass(1);
    Ok(())
}

fn play(job: &Job, call: Call) -> Result<Outcome> {
    let limit = Duration::from_secs(if job.deep { 6 * 3600 } else { 600 });
    call.limit(limit).show(Show::Some(is_news)).run()
}

fn count(outcome: &Outcome, tally: &mut Tally) -> Result<()> {
    let score = Score::of(&outcome.stdout).ok_or_else(|| outcome.trouble())?;
    tally.pass(score.passed);
    tally.skip(score.skipped);
    let names: Vec<&str> = failed(&outcome.stdout).collect();
    for name in &names {
        tally.fail(format!("conformance: {name}"));
    }
    let unnamed = score.failed.saturating_sub(names.len() as u64);
    if unnamed > 0 {
        tally.fail_many(unnamed, format!("conformance: {unnamed} more"));
    }
    if score.failed == 0 && !outcome.success() { Err(outcome.trouble()) } else { Ok(()) }
}

/// The trials that failed, and what was broken on purpose and not caught.
fn failed(output: &str) -> impl Iterator<Item = &str> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("FAIL ").or(line.strip_prefix("MISSED ")));
    lines.map(|rest| rest.split(" (").next().unwrap_or(rest))
}

/// A trial that passed is none.
fn is_news(line: &str) -> bool {
    !line.starts_with("pass ") && !line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named() {
        let output = "pass a (0.01 s)\nFAIL tokens_grow (0.20 s)\n     token 3 came after 4\nskip b: no server\nMISSED c\n";
        assert_eq!(failed(output).collect::<Vec<_>>(), ["tokens_grow", "c"]);
        assert!(is_news("skip b: no server") && !is_news("pass a (0.01 s)"));
    }
}
