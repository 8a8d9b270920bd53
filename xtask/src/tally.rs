//! Counts passed, failed and skipped units, and collects the lines of the summary.
//!
//! A unit is a test, a mutant, an invariant, an example, a code block of a page, or a step with a single check.

/// The running score.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failures: Vec<String>,
    uncounted_failures: u64,
    skipped: u64,
    facts: Vec<(&'static str, u64)>,
}

impl Tally {
    pub(crate) fn pass(&mut self, units: u64) {
        self.passed += units;
    }

    /// One unit failed; the summary repeats the sentence.
    pub(crate) fn fail(&mut self, sentence: impl Into<String>) {
        self.failures.push(sentence.into());
    }

    /// Several units failed under one sentence.
    pub(crate) fn fail_many(&mut self, units: u64, sentence: impl Into<String>) {
        self.uncounted_failures += units.saturating_sub(1);
        self.fail(sentence);
    }

    /// Units that could not be tested here; the caller has printed why.
    pub(crate) fn skip(&mut self, units: u64) {
        self.skipped += units;
    }

    /// A figure for the summary. Figures with the same label are added.
    pub(crate) fn fact(&mut self, label: &'static str, figure: u64) {
        match self.facts.iter_mut().find(|(known, _)| *known == label) {
            Some((_, sum)) => *sum += figure,
            None => self.facts.push((label, figure)),
        }
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failures.len() as u64 + self.uncounted_failures
    }

    /// How many units were tested so far.
    pub(crate) fn units(&self) -> u64 {
        self.passed + self.failed()
    }

    /// The figures, then the failures, then the score alone on the last line.
    pub(crate) fn summary(&self) -> String {
        let mut lines = Vec::new();
        for (label, figure) in &self.facts {
            lines.push(format!("{label}: {}", grouped(*figure)));
        }
        for failure in &self.failures {
            lines.push(format!("failed: {failure}"));
        }
        lines.push(format!("{} passed, {} failed, {} skipped", self.passed, self.failed(), self.skipped));
        lines.join("\n")
    }
}

/// 1234567 as `1 234 567`.
pub(crate) fn grouped(figure: u64) -> String {
    let digits = figure.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_last_line_and_counts_every_unit() {
        let mut tally = Tally::default();
        tally.pass(41);
        tally.fail("format: run `cargo fmt`");
        tally.fail_many(2, "tests: 2 failed");
        tally.skip(5);
        tally.fact("explored states", 100_000);
        tally.fact("explored states", 23_456);
        let summary = tally.summary();
        assert_eq!(summary.lines().next(), Some("explored states: 123 456"));
        assert_eq!(summary.lines().last(), Some("41 passed, 3 failed, 5 skipped"));
    }
}
