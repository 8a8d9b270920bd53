//! The playground in a real browser: every lesson, links, keys, the search, accessibility, sizes.

use super::Job;
use crate::playground::browser;
use crate::tally::Tally;
use crate::trouble::Result;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let pictures = browser::pictures()?;
    let outcome = browser::check(&job.workspace.root, &pictures)?;
    let mut failed = 0;
    for line in outcome.stdout.lines() {
        if line.starts_with("ok ") {
            tally.pass(1);
        } else if let Some(check) = line.strip_prefix("FAILED ") {
            failed += 1;
            tally.fail(format!("playground: {check}"));
        }
    }
    println!("pictures of every lesson: {}", pictures.display());
    if failed == 0 && !outcome.success() { Err(outcome.trouble()) } else { Ok(()) }
}
