//! Reads the output of Rust's test harness.
//!
//! Every test binary ends with `test result: ok. 3 passed; 0 failed; 1 ignored; …`; the score is the sum of these
//! lines. A binary that dies earlier prints no such line, so its exit code must be checked too.

use crate::call::Outcome;
use crate::tally::Tally;
use crate::trouble::Result;

/// The reason in a test that is ignored because it needs a server.
const NEEDS_A_SERVER: &str = "... ignored, needs a server";

/// Counts a run of tests. Tests that need a server do not count as skipped: another step runs them.
pub(crate) fn count(run: &Outcome, tally: &mut Tally) -> Result<()> {
    let counts = counts(&run.text);
    tally.pass(counts.passed);
    tally.skip(counts.ignored.saturating_sub(waiting_for_a_server(&run.text)));
    if run.success() {
        return Ok(());
    }
    let names = failed(&run.text);
    for name in &names {
        tally.fail(format!("test {name}"));
    }
    let unnamed = counts.failed.saturating_sub(names.len() as u64);
    if unnamed > 0 {
        tally.fail_many(unnamed, format!("{unnamed} more tests"));
    }
    if counts.failed == 0 { Err(run.trouble()) } else { Ok(()) }
}

/// Whether a line shows a result of tests.
pub(crate) fn is_result(line: &str) -> bool {
    line.starts_with("test result: ") || line.ends_with("... FAILED")
}

/// The output of a failed run, without the output of tests that passed.
pub(crate) fn without_successes(output: &str) -> String {
    let mut is_wanted = true;
    let mut wanted = String::new();
    for line in output.lines() {
        is_wanted =
            line != "successes:" && (is_wanted || line == "failures:" || line.starts_with("test result: "));
        if is_wanted {
            wanted.extend([line, "\n"]);
        }
    }
    wanted
}

/// The sums over all summary lines of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

pub(crate) fn counts(output: &str) -> Counts {
    let mut sums = Counts::default();
    for line in output.lines().filter(|line| line.starts_with("test result: ")) {
        sums.passed += figure(line, "passed");
        sums.failed += figure(line, "failed");
        sums.ignored += figure(line, "ignored");
    }
    sums
}

/// The names in the output of `--list --format terse`.
pub(crate) fn listed(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

fn waiting_for_a_server(output: &str) -> u64 {
    let is_one = |line: &&str| line.starts_with("test ") && line.contains(NEEDS_A_SERVER);
    output.lines().filter(is_one).count() as u64
}

/// Names of the tests that failed, in the order of their result lines.
fn failed(output: &str) -> Vec<String> {
    let results = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    results.map(str::to_owned).collect()
}

/// The figure in front of a word: `3` in `ok. 3 passed;`.
fn figure(line: &str, word: &str) -> u64 {
    line.split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        .next()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test line::tests::a_writer_waits ... ok
test line::tests::a_reader_passes ... FAILED
test slow ... ignored

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.02s

   Doc-tests tidelock
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";

    #[test]
    fn summary_lines_add_up() {
        assert_eq!(counts(OUTPUT), Counts { passed: 13, failed: 1, ignored: 1 });
        assert_eq!(counts("error: could not compile"), Counts::default());
    }

    #[test]
    fn a_test_that_needs_a_server_is_known_by_its_reason() {
        let output =
            "test a ... ignored, needs a server: cargo xtask test runs it\ntest b ... ignored, slow\n";
        assert_eq!(waiting_for_a_server(output), 1);
    }

    #[test]
    fn failed_tests_are_named() {
        assert_eq!(failed(OUTPUT), ["line::tests::a_reader_passes"]);
    }

    #[test]
    fn what_passed_is_left_out() {
        let output = "\
test a ... ok
test b ... FAILED

successes:

---- a stdout ----
explored: 12 states

successes:
    a

failures:

---- b stdout ----
it broke

failures:
    b

test result: FAILED. 1 passed; 1 failed;
     Running another
";
        let wanted = without_successes(output);
        assert!(wanted.contains("it broke") && wanted.contains("Running another"), "{wanted}");
        assert!(!wanted.contains("---- a stdout") && !wanted.contains("12 states"), "{wanted}");
    }

    #[test]
    fn a_list_is_read_without_its_benches_and_its_end() {
        assert_eq!(listed("a::b: test\nc: test\nd: benchmark\n\n2 tests, 1 benchmark\n"), ["a::b", "c"]);
    }
}
