//! Runs the conformance suite once, and counts its trials.

use super::Job;
use crate::call::{Call, Outcome, Show};
use crate::score::Score;
use crate::tally::Tally;
use crate::trouble::Result;

/// Makes a run as it is, and counts its trials.
pub(super) fn play(job: &Job, on: &str, call: Call, tally: &mut Tally) -> Result<()> {
    count(on, &call.limit(job.limit(600)).show(Show::Some(is_news)).run()?, tally)
}

/// Prints what is news of a run that has ended, and counts its trials.
pub(super) fn tell(on: &str, outcome: &Outcome, tally: &mut Tally) -> Result<()> {
    outcome.text.lines().filter(|line| is_news(line)).for_each(|line| println!("{line}"));
    count(on, outcome, tally)
}

fn count(on: &str, outcome: &Outcome, tally: &mut Tally) -> Result<()> {
    let score = Score::of(&outcome.stdout).ok_or_else(|| outcome.trouble())?;
    tally.pass(score.passed);
    tally.skip(score.skipped);
    let names: Vec<&str> = failed(&outcome.stdout).collect();
    for name in &names {
        tally.fail(format!("conformance on {on}: {name}"));
    }
    let unnamed = score.failed.saturating_sub(names.len() as u64);
    if unnamed > 0 {
        tally.fail_many(unnamed, format!("conformance on {on}: {unnamed} more"));
    }
    if score.failed == 0 && !outcome.success() { Err(outcome.trouble()) } else { Ok(()) }
}

/// The trials that failed, and the deliberate faults that were not caught.
fn failed(output: &str) -> impl Iterator<Item = &str> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("FAIL ").or(line.strip_prefix("MISSED ")));
    lines.map(|rest| rest.split(" (").next().unwrap_or(rest))
}

/// Whether to show a line: a trial that passed is not shown, unless its bounds had to be extended, or it was played twice.
fn is_news(line: &str) -> bool {
    let is_excused =
        ["; the machine stood still for ", "; played again alone, "].iter().any(|why| line.contains(why));
    (!line.starts_with("pass ") || is_excused) && !line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named() {
        let output = "pass a (0.01 s)\nFAIL tokens_grow (0.20 s)\n     token 3 came after 4\nskip b: no server\nMISSED c\n";
        assert_eq!(failed(output).collect::<Vec<_>>(), ["tokens_grow", "c"]);
        assert!(is_news("skip b: no server") && !is_news("pass a (0.01 s)"));
        assert!(is_news("pass a (1.01 s; the machine stood still for 0.30 s)"));
        assert!(is_news("pass a (1.01 s; played again alone, since with too few processors it was late)"));
    }
}
