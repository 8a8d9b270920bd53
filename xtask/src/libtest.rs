//! Reads what Rust's test harness prints.
//!
//! Every test binary ends with `test result: ok. 3 passed; 0 failed; 1 ignored; …`; their sums are the score.
//! A binary that died before it got there has no such line, so its exit code must be looked at as well.

/// Sums over all summary lines of a run.
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

/// Names of the tests that failed, in the order of their result lines.
pub(crate) fn failed(output: &str) -> Vec<String> {
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
    fn failed_tests_are_named() {
        assert_eq!(failed(OUTPUT), ["line::tests::a_reader_passes"]);
    }

    #[test]
    fn a_list_is_read_without_its_benches_and_its_end() {
        assert_eq!(listed("a::b: test\nc: test\nd: benchmark\n\n2 tests, 1 benchmark\n"), ["a::b", "c"]);
    }
}
